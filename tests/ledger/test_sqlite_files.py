"""The tables of a file of SQLite, whose maker may be killed between any two statements."""

import pytest
from optuna.storages import RDBStorage
from sqlalchemy import Engine, event, text

from bmbo.ledger import Ledger, open_storage
from support.outages import engine_of
from support.study_ledgers import DEFINITION, ledger_in, planned


class KilledError(BaseException):
    """Ends a process here."""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


def killed_before(beginning):
    """A listener that ends who is about to send a statement."""

    def sent(_connection, _cursor, statement, *_):
        if statement.strip().startswith(beginning):
            raise KilledError

    return sent


def half_made(url):
    """A file as an older version left it: names of studies need not be unique."""
    engine = RDBStorage(url).engine
    with engine.begin() as connection:
        connection.execute(text("DROP INDEX ix_studies_study_name"))
    return engine


@pytest.mark.parametrize("beginning", ["CREATE UNIQUE INDEX", "CREATE TABLE trials", "INSERT INTO version_info"])
def test_a_study_whose_maker_was_killed_while_the_tables_were_made_can_be_made_again(url, beginning):
    listener = killed_before(beginning)
    event.listen(Engine, "before_cursor_execute", listener)
    try:
        with pytest.raises(KilledError):
            ledger_in(url)
    finally:
        event.remove(Engine, "before_cursor_execute", listener)
    planned(ledger_in(url))
    with pytest.raises(ValueError, match="exists already"):
        Ledger.create(url, "study", DEFINITION, load_if_exists=False)
    assert len(ledger_in(url).read().entries) == 3


def test_a_file_that_an_older_version_left_half_made_is_repaired(url):
    engine = half_made(url)
    planned(ledger_in(url))
    with engine.begin() as connection:
        connection.execute(text("DROP INDEX ix_studies_study_name"))
        connection.execute(text("INSERT INTO studies (study_name) VALUES ('study')"))
        connection.execute(
            text(
                "INSERT INTO study_directions (direction, study_id, objective)"
                " SELECT 'MINIMIZE', max(study_id), 0 FROM studies"
            )
        )
    assert len(Ledger.load(url, "study").read().entries) == 3
    with engine_of(open_storage(url)).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM studies WHERE study_name = 'study'")).scalar() == 1
        assert connection.execute(text("SELECT count(*) FROM study_directions")).scalar() == 1
        indexes = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'index'")).scalars().all()
    assert "ix_studies_study_name" in indexes


def test_a_storage_of_optuna_that_was_left_half_made_is_repaired_too(url):
    half_made(url)
    ledger_in(RDBStorage(url))
    with pytest.raises(ValueError, match="exists already"):
        Ledger.create(RDBStorage(url), "study", DEFINITION, load_if_exists=False)


def test_two_studies_of_one_name_that_both_have_trials_are_left_to_the_user(url):
    engine = half_made(url)
    with engine.begin() as connection:
        for number in (1, 2):
            connection.execute(text("INSERT INTO studies (study_name) VALUES ('study')"))
            connection.execute(text(f"INSERT INTO trials (study_id, number, state) VALUES ({number}, 0, 'WAITING')"))
    with pytest.raises(ValueError, match="two studies of the name 'study' have trials"):
        ledger_in(url)
