"""A run whose storage is away: it waits and goes on, or ends in time and keeps what it has found."""

import json
import logging
import threading
from pathlib import Path

import pytest

from bmbo import load_study, random_search
from bmbo.ledger import Owner
from bmbo.ledger.outages import StorageAwayError
from bmbo.study.heart import beating
from bmbo.study.limits import Limits
from bmbo.study.planner import Follower
from bmbo.study.run_options import LoopOptions
from support.outages import Lock, engine_of
from support.quiet_runs import record, run, study_in
from support.small_studies import bowl


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def study(path, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.sqlite_files.BUSY_SECONDS", 0.02)
    monkeypatch.setattr("bmbo.study.run_loop.LEAVING_SECONDS", 0.3)
    return study_in(f"sqlite:///{path}")


@pytest.fixture
def lock(study, path):
    assert study.trials == []
    lock = Lock(path)
    yield lock
    lock.close()


def locks_at(lock, number, then=None, seconds=None):
    """An objective that locks the database while it runs one of its trials."""

    def objective(trial):
        if trial.number == number:
            lock.take(seconds)
            if then is not None:
                then()
        return bowl(trial)

    return objective


def interrupt():
    raise KeyboardInterrupt


def unwritten(folder):
    (file,) = Path(folder).glob("bmbo-unwritten-*.json")
    return file


def test_a_run_waits_for_its_storage_and_has_the_same_record(study, lock):
    run(study, locks_at(lock, 2, seconds=0.5), n_trials=6, batch_size=3)
    assert record(study) == record(run(study_in(), n_trials=6, batch_size=3))


def test_a_run_that_has_waited_long_enough_keeps_what_it_has_found(study, lock, tmp_path, caplog):
    with pytest.raises(StorageAwayError, match=r"study\.db has not answered for \d+ s \(database is locked\)"):
        run(study, locks_at(lock, 2), n_trials=6, batch_size=3, patience=0.3)
    lock.give_back()
    assert study.trials[2].state == "running"
    file = unwritten(tmp_path)
    assert f"results of trials 2; they are in {file}" in caplog.text
    assert "others take it after the grace period" in caplog.text
    assert file.stat().st_mode & 0o077 == 0
    (added,) = study.recover(file)
    assert (added.number, added.state, added.value) == (2, "complete", bowl(study.trials[2]))
    assert not file.exists()
    run(study, n_trials=6, batch_size=3)
    assert record(study) == record(run(study_in(), n_trials=6, batch_size=3))


def test_a_run_that_is_told_to_end_while_its_storage_is_away_does_so(study, lock, tmp_path, caplog):
    with pytest.raises(KeyboardInterrupt):
        run(study, locks_at(lock, 2, then=interrupt), n_trials=6, batch_size=3)
    assert "could not give its work back" in caplog.text
    # Nothing was found.
    assert not list(tmp_path.glob("bmbo-unwritten-*"))


class Impatient(logging.Handler):
    """A user who ends the run on hearing that its storage is away."""

    def emit(self, record):
        if "has not answered" in record.getMessage():
            raise KeyboardInterrupt


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("bmbo.ledger.outages.QUIET_SECONDS", 0.0)
    handler = Impatient()
    logging.getLogger("bmbo").addHandler(handler)
    yield
    logging.getLogger("bmbo").removeHandler(handler)


@pytest.mark.usefixtures("impatient")
def test_a_run_that_is_told_to_end_while_it_waits_keeps_what_it_has_found(study, lock, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(study, locks_at(lock, 1), n_trials=6, batch_size=3)
    lock.give_back()
    assert [trial.number for trial in study.recover(unwritten(tmp_path))] == [1]


@pytest.mark.usefixtures("impatient")
def test_what_was_found_is_written_if_the_storage_is_back_in_time(study, lock, tmp_path, monkeypatch):
    monkeypatch.setattr("bmbo.study.run_loop.LEAVING_SECONDS", 60.0)
    # Whoever leaves tells nobody any more.
    monkeypatch.setattr("bmbo.ledger.outages.LINE_SECONDS", 600.0)
    with pytest.raises(KeyboardInterrupt):
        run(study, locks_at(lock, 2, seconds=0.5), n_trials=6, batch_size=3)
    assert not list(tmp_path.glob("bmbo-unwritten-*"))
    assert [trial.state for trial in study.trials] == ["complete"] * 3


def test_a_file_that_does_not_fit_is_refused_and_adds_nothing(study, lock, tmp_path):
    with pytest.raises(StorageAwayError):
        run(study, locks_at(lock, 0), n_trials=2, patience=0.2)
    lock.give_back()
    file = unwritten(tmp_path)
    content = json.loads(file.read_text())
    sentences = {
        "no json": "is no file of results that bmbo could not write",
        json.dumps([3]): "is no file of results that bmbo could not write",
        json.dumps({**content, "kind": "something"}): "is no file of results that bmbo could not write",
        json.dumps({**content, "results": 3}): "is no file of results that bmbo could not write",
        json.dumps({**content, "study": "other"}): "has results of the study 'other', not of 'study'",
    }
    (result,) = content["results"]
    for broken in ({"trial": 99}, "text", {**result, "params": {"x": "text"}}, {**result, "cost": "much"}):
        sentences[json.dumps({**content, "results": [broken]})] = "has a result that does not fit this study"
    sentences[json.dumps({**content, "results": [{**result, "level": 1 - result["level"]}]})] = "trial 0 differs"
    for text, sentence in sentences.items():
        file.write_text(text)
        with pytest.raises(ValueError, match=sentence):
            study.recover(file)
    with pytest.raises(ValueError, match="cannot be read"):
        study.recover(tmp_path / "nowhere.json")
    assert study.trials[0].state == "running"


def test_results_that_no_folder_takes_are_said(study, lock, caplog, monkeypatch):
    def full(*_):
        raise OSError("full")

    monkeypatch.setattr("bmbo.study.unwritten._write", full)
    # Python looks for a temporary folder that takes a file.
    monkeypatch.setattr("bmbo.study.unwritten.tempfile.gettempdir", full)
    with pytest.raises(StorageAwayError):
        run(study, locks_at(lock, 0), n_trials=2, patience=0.2)
    assert "the results of trials 0 could be written nowhere: [{" in caplog.text


@pytest.fixture
def entry(study):
    study.enqueue({"x": 0.5, "n": 3})
    return study._ledger.read().entries[0]


def test_no_error_ends_the_signs_of_life(study, entry, caplog, monkeypatch):
    """As when the storage was away for longer than a run may wait."""
    beats, enough = [], threading.Event()

    def beat(*_):
        beats.append(True)
        if len(beats) > 3:
            enough.set()
        raise StorageAwayError("gone")

    monkeypatch.setattr(study._ledger, "beat", beat)
    follower = Follower(study._ledger, LoopOptions(Limits(n_trials=1)))
    with beating(study._ledger, Owner.new(), follower, {0: entry}, 0.06):
        assert enough.wait(60)
    assert "a sign of life could not be written, and the next one is tried: gone" in caplog.text


def test_a_trial_that_others_took_while_its_process_was_away_is_said_once(study, entry, caplog, monkeypatch):
    asked, enough = [], threading.Event()

    def beat(*_):
        asked.append(True)
        if len(asked) > 2:
            enough.set()
        return False

    monkeypatch.setattr(study._ledger, "beat", beat)
    follower = Follower(study._ledger, LoopOptions(Limits(n_trials=1)))
    with beating(study._ledger, Owner.new(), follower, {0: entry}, 0.06):
        assert enough.wait(60)
    assert caplog.text.count("trial 0 was given to another process") == 1


def test_a_run_without_a_planner_waits_too(study, lock, path):
    run(study, n_trials=1)
    study.enqueue({"x": 0.5, "n": 3})
    follower = load_study(study_name="study", storage=f"sqlite:///{path}", method=random_search())
    follower.plans = False
    engine_of(follower._ledger.storage).dispose()
    run(follower, locks_at(lock, 1, seconds=0.4), n_trials=2, grace=0.5)
    assert len(study.history.done) == 2
