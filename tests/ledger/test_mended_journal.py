"""A journal whose writer was killed in the middle of a line, or had no place left on its disk."""

import errno
import os

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from bmbo.history import Outcome
from bmbo.ledger import Ledger
from bmbo.ledger.full_disk import StorageFullError
from support.study_ledgers import ledger_in, planned, query_at

HALF = b'{"op_code":4,"worker_id":"abc","study_id":0,"datet'


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "study.log"
    planned(ledger_in(str(path)))
    return path


def test_half_a_line_at_the_end_is_removed_by_the_next_writer(path):
    whole = path.read_bytes()
    path.write_bytes(whole + HALF)
    ledger = Ledger.load(str(path), "study")
    assert len(ledger.read().entries) == 3
    ledger.add(query_at(0.9))
    assert len(ledger.read().entries) == 4
    assert path.read_bytes().startswith(whole + b"{")
    # For Optuna, too, it is a journal as every other.
    plain = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    assert len(optuna.load_study(study_name="study", storage=plain).trials) == 4


def test_a_record_behind_half_a_line_is_read_and_other_lines_are_left_out(path, caplog):
    reading = Ledger.load(str(path), "study")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-1], HALF + lines[-1], b"no record\n", HALF + b"\n"]))
    ledger = Ledger.load(str(path), "study")
    assert len(ledger.read().entries) == 3
    (number,) = [ledger.add(query_at(0.9), Outcome(1.0, 1.0))]
    assert ledger.read().entries[number].trial.value == 1.0
    assert "is no record and is left out" in caplog.text
    # Who knows what has been before, and who reads anew, agree.
    path.write_bytes(whole + b"no record\n")
    assert len(reading.read().entries) == 3
    ledger_in(str(path)).add(query_at(0.3))
    assert len(reading.read().entries) == len(Ledger.load(str(path), "study").read().entries) == 4


def test_a_record_for_which_the_disk_has_no_place_leaves_nothing_behind(path, monkeypatch):
    ledger = Ledger.load(str(path), "study")
    whole = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("bmbo.ledger.mended_journal.os.fsync", full)
        with pytest.raises(StorageFullError, match=f"the disk of {path} is full"):
            ledger.add(query_at(0.9))
    assert path.read_bytes() == whole
    ledger.add(query_at(0.9))
    assert len(ledger.read().entries) == 4


def test_a_journal_that_is_mended_while_it_is_read_is_read_again(path, monkeypatch):
    reading = Ledger.load(str(path), "study")
    # Half a line that was read, and of which the end is another writer's record.
    whole = path.read_bytes()
    path.write_bytes(whole + b"half of an old line, and the end of a new one\n")
    monkeypatch.setattr("bmbo.ledger.mended_journal.MendedJournal._is_still", lambda *_: False)
    assert len(reading.read().entries) == 3
    monkeypatch.undo()
    path.write_bytes(whole)
    ledger_in(str(path)).add(query_at(0.3))
    assert len(reading.read().entries) == 4
