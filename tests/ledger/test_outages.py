"""A storage that is away for a while, whose answers get lost, or whose disk is full."""

import logging
import sqlite3
import threading
from itertools import count

import pytest
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, PendingRollbackError

from bmbo.history import Outcome
from bmbo.ledger import ASKED, Ledger, Owner, outages, storages
from bmbo.ledger.full_disk import StorageFullError
from bmbo.ledger.outages import StorageAwayError, leave_within, patient_for, with_retries
from bmbo.ledger.owners import SilenceWatch
from bmbo.ledger.planner_lease import current_term
from bmbo.ledger.trial_store import AnyStorage
from support.outages import Lock, LostAnswers, engine_of
from support.study_ledgers import always, ledger_in, planned, query_at


# In transactions of our own, and in the single steps that every storage of Optuna has.
@pytest.fixture(params=["transactions", "steps"])
def ledger(request, tmp_path, monkeypatch):
    if request.param == "steps":
        monkeypatch.setattr("bmbo.ledger.readable_ledger.store_of", AnyStorage)
    return ledger_in(f"sqlite:///{tmp_path}/study.db")


@pytest.fixture
def lock(ledger, tmp_path, monkeypatch):
    """The lock of the ledger's database, for which SQLite itself waits no time."""
    monkeypatch.setattr("bmbo.ledger.sqlite_files.BUSY_SECONDS", 0.02)
    engine_of(ledger.storage).dispose()
    lock = Lock(tmp_path / "study.db")
    yield lock
    lock.close()


def fails(error):
    def call():
        raise error

    return call


# What is written once, though the answer to it is lost.


def test_a_trial_whose_answer_is_lost_is_written_once(ledger):
    answers = LostAnswers(ledger.storage)
    answers.lose(3)
    assert ledger.add(query_at(0.5), Outcome(1.0, 1.0)) == 0
    answers.lose()
    assert ledger.add(query_at(0.5), Outcome(1.0, 1.0)) == 1
    assert [entry.trial.value for entry in ledger.read().entries] == [1.0, 1.0]


@pytest.mark.parametrize("ledger", ["steps"], indirect=True)
def test_a_trial_whose_answer_is_lost_is_written_once_where_optuna_itself_repeats_the_call(ledger, monkeypatch):
    # As if the storage had reported the error in Optuna's way.
    monkeypatch.setattr("bmbo.ledger.outages._is_temporary", lambda *_, **__: False)
    monkeypatch.setattr("optuna.storages._rdb.storage.time.sleep", lambda _: None)
    answers = LostAnswers(ledger.storage)
    answers.lose()
    ledger.add(query_at(0.5))
    assert len(ledger.read().entries) == 1


@pytest.mark.parametrize("lost", range(1, 5))
def test_a_batch_whose_answers_are_lost_is_written_once(ledger, lost):
    answers = LostAnswers(ledger.storage)
    commits = count(1)

    def permitted():
        # Asked before the plan and before each trial.
        if next(commits) == lost:
            answers.lose()
        return True

    ledger.plan(0, [query_at(0.1), query_at(0.4), query_at(0.7)], permitted)
    assert [entry.batch for entry in ledger.read().entries] == [0, 0, 0]


def test_a_claim_whose_answer_is_lost_is_ones_own(ledger, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.writing_once.NAMING_SECONDS", 0.0)
    (entry,) = planned(ledger, query_at(0.5))
    LostAnswers(ledger.storage).lose()
    assert ledger.claim(entry, ASKED)
    assert [(known.state, known.owner) for known in ledger.read().entries] == [("running", ASKED)]


def test_a_claim_that_fails_while_another_succeeds_is_not_ones_own(ledger, tmp_path):
    (entry,) = planned(ledger, query_at(0.5))
    other = Ledger.load(f"sqlite:///{tmp_path}/study.db", "study")
    answers = iter([OSError("cut")])

    def claimed_meanwhile(_):
        for error in answers:
            assert other.claim(entry, "other")
            raise error

    # Before the lock is taken.
    event.listen(engine_of(ledger.storage), "engine_connect", claimed_meanwhile)
    assert not ledger.claim(entry, "me")
    assert ledger.read().entries[0].owner == "other"


@pytest.mark.parametrize("kept", [0, 3])
def test_a_result_whose_answer_is_lost_is_there_once(ledger, kept):
    run, told = planned(ledger, query_at(0.1), query_at(0.4))
    ledger.claim(run, "me")
    ledger.claim(told, ASKED)
    answers = LostAnswers(ledger.storage)
    answers.lose(after=kept)
    assert ledger.finish(run, Outcome(1.0, 1.0, 5.0), "me") == 0
    answers.lose(after=kept)
    assert ledger.finish(told, Outcome(2.0, 1.0, 5.0)) == 1
    assert [entry.trial.value for entry in ledger.read().entries] == [1.0, 2.0]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_second_result_whose_answer_is_lost_is_there_once(ledger, kept):
    (entry,) = planned(ledger, query_at(0.1))
    ledger.claim(entry, "me")
    ledger.finish(entry, Outcome(1.0, 1.0), "other")
    LostAnswers(ledger.storage).lose(after=kept)
    assert ledger.finish(entry, Outcome(2.0, 1.0), "me") == 1
    assert [entry.trial.value for entry in ledger.read().entries] == [1.0, 2.0]


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_trial_whose_change_is_not_answered_is_changed_once(ledger, kept, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.writing_once.NAMING_SECONDS", 0.0)
    given_back, dropped = planned(ledger, query_at(0.1), query_at(0.4))
    ledger.claim(given_back, "me")
    answers = LostAnswers(ledger.storage)
    answers.lose(after=kept)
    ledger.requeue(given_back, "me")
    answers.lose(after=kept)
    assert ledger.drop(dropped)
    assert [(entry.state, entry.retries) for entry in ledger.read().entries] == [("waiting", 1), ("dropped", 0)]


# What is said, and when it ends.


def test_an_outage_is_said_once_and_its_end_too(caplog, monkeypatch):
    monkeypatch.setattr(outages, "QUIET_SECONDS", 0.0)
    answers = iter([OSError("refused"), OSError("refused"), OSError("refused"), 3])

    def call():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with caplog.at_level(logging.WARNING, logger="bmbo"):
        assert with_retries(call) == 3
        assert with_retries(lambda: 4) == 4
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("the storage has not answered for 0 s (refused); trying again for ")
    assert last.startswith("the storage answers again, after ")


def test_after_the_set_time_there_is_one_sentence_without_sql(ledger, lock):
    lock.take()
    with patient_for(0.2), pytest.raises(StorageAwayError) as refusal:
        ledger.add(query_at(0.5))
    assert "study.db has not answered for 0 s (database is locked); what was written stays" in str(refusal.value)
    assert "SELECT" not in str(refusal.value)
    assert "BEGIN" not in str(refusal.value)


def test_who_leaves_waits_no_longer_and_the_next_run_does_again(ledger, lock):
    lock.take()
    with patient_for(600):
        leave_within(0.1)
        with pytest.raises(StorageAwayError):
            ledger.add(query_at(0.5))
    timer = threading.Timer(0.3, lock.give_back)
    timer.start()
    assert ledger.add(query_at(0.5)) == 0
    timer.join()


def test_who_makes_a_study_in_a_file_that_is_locked_waits_longer_than_for_one_that_is_broken(tmp_path, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.sqlite_files.BUSY_SECONDS", 0.02)
    monkeypatch.setattr("bmbo.ledger.storages.OPENING_SECONDS", 0.1)
    lock = Lock(tmp_path / "study.db")
    lock.take(0.8)
    assert ledger_in(f"sqlite:///{tmp_path}/study.db").read().entries == ()
    lock.close()


def test_who_opens_a_file_that_others_are_just_making_tries_again_however_long_it_took(tmp_path, monkeypatch):
    monkeypatch.setattr(storages, "OPENING_SECONDS", 0.0)
    told = sqlite3.IntegrityError("UNIQUE constraint failed: alembic_version.version_num")
    errors, made = [IntegrityError("INSERT", None, told)], storages._database

    def database(url):
        if errors:
            raise errors.pop()
        return made(url)

    monkeypatch.setattr(storages, "_database", database)
    assert ledger_in(f"sqlite:///{tmp_path}/study.db").read().entries == ()
    assert errors == []


def test_who_only_looks_for_the_planner_waits_too(ledger, lock):
    ledger.lease(Owner.new(), 5.0).acquire()
    lock.take(0.3)
    assert current_term(ledger.storage, "study") is not None


def test_a_transaction_that_an_outage_has_broken_is_begun_anew():
    broken = StorageInternalError("invalid data")
    broken.__cause__ = PendingRollbackError("Can't reconnect until invalid transaction is rolled back")
    answers = iter([fails(broken), lambda: 3])

    def call():
        return next(answers)()

    assert with_retries(call) == 3


def test_silence_counts_anew_after_an_outage(monkeypatch):
    seconds = iter([0.0, 100.0, 104.0, 105.0])
    watch = SilenceWatch(5.0, lambda: next(seconds))
    assert not watch.is_silent("a", 1)
    monkeypatch.setattr("bmbo.ledger.owners.num_outages", lambda: 10**9)
    assert not watch.is_silent("a", 1)
    assert not watch.is_silent("a", 1)
    assert watch.is_silent("a", 1)


# A full disk.


def test_a_full_disk_is_named_at_once(ledger, tmp_path):
    engine = engine_of(ledger.storage)

    def bounded(connection, _):
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}").close()

    event.listen(engine, "connect", bounded)
    engine.dispose()

    def fill():
        for _ in range(1000):
            ledger.add(query_at(0.5))

    with pytest.raises(StorageFullError) as refusal:
        fill()
    said = str(refusal.value)
    assert f"the disk of {tmp_path}/study.db is full" in said
    assert f"MB are free in {tmp_path}" in said


# Signs of life of one whose trials were taken.


def test_who_comes_back_takes_its_trial_back_if_nobody_has_begun_it(ledger):
    (entry,) = planned(ledger, query_at(0.5))
    ledger.claim(entry, "slow")
    ledger.requeue(entry, "slow")
    assert ledger.beat(entry, "slow", 1)
    assert [(known.state, known.owner) for known in ledger.read().entries] == [("running", "slow")]


def test_who_comes_back_does_not_keep_the_trial_of_another_alive(ledger):
    (entry,) = planned(ledger, query_at(0.5))
    ledger.claim(entry, "slow")
    ledger.beat(entry, "slow", 7)
    ledger.requeue(entry, "slow")
    ledger.claim(entry, "quick")
    assert not ledger.beat(entry, "slow", 8)
    assert ledger.read().entries[0].beat == 7


def test_the_key_of_a_write_is_no_part_of_what_users_see_of_a_trial(ledger):
    ledger.plan(0, [query_at(0.5)], always)
    (trial,) = ledger.storage.get_all_trials(ledger._study_id)
    assert trial.state == TrialState.WAITING
    assert not [key for key in trial.user_attrs if "key" in key]
