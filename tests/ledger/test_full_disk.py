"""A disk that is really full under a storage: it is named at once, and nothing is lost."""

import pytest

from bmbo.history import Outcome
from bmbo.ledger import Ledger, StorageFullError
from bmbo.ledger.outages import _waiting
from support import small_disk as disks
from support.outages import engine_of
from support.study_ledgers import ledger_in, query_at

small_disk = disks.small_disk


@pytest.fixture(params=["sqlite", "journal"])
def storage(request, small_disk):
    folder = small_disk.folder
    return {"sqlite": f"sqlite:///{folder}/study.db", "journal": str(folder / "study.log")}[request.param]


@pytest.fixture(autouse=True)
def _never_waits(monkeypatch):
    """Lets a call fail that would be tried again."""

    def say(*_):
        raise AssertionError("it waits for a full disk")

    monkeypatch.setattr(_waiting, "say", say)


def values(ledger):
    return [entry.trial.value for entry in ledger.read().entries]


def written_until_full(ledger):
    """Writes trials until the disk takes no more; gives the values that were said to be written, and the refusal."""
    kept = []
    while len(kept) < 10_000:
        try:
            ledger.add(query_at(0.5), Outcome(float(len(kept)), 1.0))
        except StorageFullError as refusal:
            return kept, str(refusal)
        kept.append(float(len(kept)))
    raise AssertionError("the disk is never full")


@pytest.mark.parametrize("free", [0, 100_000])
def test_writing_ends_when_the_disk_is_full_and_goes_on_when_it_has_room(storage, small_disk, free):
    ledger = ledger_in(storage)
    small_disk.fill(free)
    kept, said = written_until_full(ledger)
    assert f"the disk of {small_disk.folder}/study." in said
    assert f"MB are free in {small_disk.folder})" in said
    assert values(ledger)[: len(kept)] == kept
    small_disk.make_room()
    ledger.add(query_at(0.5), Outcome(-1.0, 1.0))
    assert values(Ledger.load(storage, "study")) == [*kept, -1.0]


@pytest.mark.parametrize("free", [0, 4096, 40_960])
def test_a_file_of_sqlite_on_a_full_disk_is_opened_when_there_is_room(small_disk, free):
    storage = f"sqlite:///{small_disk.folder}/study.db"
    ledger = ledger_in(storage)
    ledger.add(query_at(0.5), Outcome(1.0, 1.0))
    engine_of(ledger.storage).dispose()
    small_disk.fill(free)
    with pytest.raises(StorageFullError, match=rf"the disk of {small_disk.folder}/study\.db is full \(0"):
        ledger_in(storage).add(query_at(0.5))
    small_disk.make_room()
    assert values(ledger_in(storage)) == [1.0]


def test_a_file_of_sqlite_whose_log_cannot_be_made_is_named_too(small_disk):
    storage = f"sqlite:///{small_disk.folder}/study.db"
    engine_of(ledger_in(storage).storage).dispose()
    small_disk.fill_with_files()
    with pytest.raises(StorageFullError, match="a quota or the number of files is used up"):
        ledger_in(storage)
    small_disk.make_room()
    assert values(ledger_in(storage)) == []


def test_a_new_study_on_a_full_disk_is_begun_when_there_is_room(storage, small_disk):
    small_disk.fill()
    with pytest.raises(StorageFullError, match=rf"the disk of {small_disk.folder}/study"):
        ledger_in(storage)
    small_disk.make_room()
    assert values(ledger_in(storage)) == []
