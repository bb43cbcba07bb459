"""The run loop when it is interrupted, and when workers and planners die: the same record, however often."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from optuna.trial import TrialState

from bmbo import load_study, random_search
from bmbo.history import Outcome
from bmbo.ledger import Owner, SilenceWatch
from bmbo.study.limits import Limits
from bmbo.study.planner import Planner
from bmbo.study.run_options import LoopOptions
from support import quiet_runs
from support.quiet_runs import LastFirst, record, run, study_in
from support.small_policies import QUICK
from support.small_studies import bowl

# A fixture that both files of tests share.
storage = quiet_runs.storage


def test_a_lost_job_is_run_again_under_its_number(caplog):
    serial = run(study_in(), n_trials=6, batch_size=3)
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        study = run(study_in(), n_trials=6, batch_size=3, executor=LastFirst(3, lose={1, 4}))
    assert record(study) == record(serial)
    assert "trial 4 is queued again: the node is gone" in caplog.text


def test_a_trial_whose_place_is_lost_time_and_again_fails_and_the_run_goes_on():
    class Leaky(LastFirst):
        def collect(self, seconds):
            finished = super().collect(seconds)
            return [replace(job, lost=True) if job.number == 1 else job for job in finished]

    study = run(study_in(), n_trials=3, batch_size=3, executor=Leaky(3))
    assert [trial.state for trial in study.trials] == ["complete", "failed", "complete"]
    assert study.trials[1].error == "its worker died 3 times"


@pytest.mark.parametrize("method", [random_search(), QUICK], ids=["random", "bayes"])
@pytest.mark.parametrize("when", [4, 10])
def test_an_interrupted_run_that_is_resumed_has_the_record_of_one_that_was_not(storage, method, when):
    whole = run(study_in(method=method), n_trials=11, batch_size=3)

    def objective(trial):
        if trial.number == when:
            raise KeyboardInterrupt
        return bowl(trial)

    with pytest.raises(KeyboardInterrupt):
        run(study_in(storage, method), objective, n_trials=11, batch_size=3)
    left = load_study(study_name="study", storage=storage, method=method)
    assert [trial.state for trial in left.trials][when] == "waiting"
    assert len(left.history.done) == when
    assert record(run(left, n_trials=11, batch_size=3)) == record(whole)
    assert {entry.retries for entry in left._ledger.read().entries} == {0}


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from support.quiet_runs import run, study_in
from support.small_studies import bowl

def objective(trial):
    if trial.number == {when}:
        os.kill(os.getpid(), signal.SIGKILL)
    return bowl(trial)

run(study_in({storage!r}), objective, total_cost=60, batch_size=3)
"""


@pytest.mark.slow
def test_a_killed_run_that_is_resumed_has_the_record_of_one_that_was_not(storage):
    whole = run(study_in(), total_cost=60, batch_size=3)
    script = KILLED.format(tests=str(Path(__file__).parents[1]), storage=storage, when=4)
    killed = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    study = study_in(storage)
    assert [trial.state for trial in study.trials] == ["complete"] * 4 + ["running", "waiting"]
    assert record(run(study, total_cost=60, batch_size=3)) == record(whole)
    assert [entry.retries for entry in study._ledger.read().entries] == [0, 0, 0, 0, 1, 0]


def test_the_first_interrupt_lets_what_runs_finish_and_is_raised_when_that_is_written_down(caplog):
    def objective(trial):
        if trial.number == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return bowl(trial)

    before = signal.getsignal(signal.SIGINT)
    study = study_in()
    with caplog.at_level(logging.WARNING, logger="bmbo"), pytest.raises(KeyboardInterrupt):
        run(study, objective, n_trials=6, batch_size=3)
    assert [trial.state for trial in study.trials] == ["complete", "complete", "waiting"]
    assert "stopping" in caplog.text
    assert signal.getsignal(signal.SIGINT) is before
    assert record(run(study, n_trials=6, batch_size=3)) == record(run(study_in(), n_trials=6, batch_size=3))


def test_the_second_interrupt_ends_the_run_at_once():
    def objective(trial):
        if trial.number == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            # Signals arrive between instructions.
            time.sleep(5)
        return bowl(trial)

    study = study_in()
    with pytest.raises(KeyboardInterrupt):
        run(study, objective, n_trials=6, batch_size=3)
    assert [trial.state for trial in study.trials] == ["complete", "waiting", "waiting"]
    assert record(run(study, n_trials=6, batch_size=3)) == record(run(study_in(), n_trials=6, batch_size=3))


GRACE = 60.0
"""Of a test whose clock is its own."""


def claimed(study, owner):
    """One planned trial that somebody else has claimed."""
    study.enqueue({"x": 0.5, "n": 3})
    (entry,) = study._ledger.read().waiting
    assert study._ledger.claim(entry, owner.text)


def test_the_trial_of_a_dead_process_is_run_again_at_once(storage, caplog):
    study = study_in(storage)
    claimed(study, replace(Owner.new(), pid=2**22 - 1))
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        run(study, n_trials=2)
    assert [trial.state for trial in study.trials] == ["complete", "complete"]
    assert "trial 0 is queued again: its worker is gone" in caplog.text
    assert study._ledger.read().entries[0].retries == 1


def test_a_batch_whose_driver_is_killed_time_and_again_has_the_record_of_one_that_ran_through(storage):
    whole = run(study_in(), n_trials=4, batch_size=2, executor=LastFirst(2))
    study = study_in(storage)
    run(study, n_trials=2, batch_size=2, executor=LastFirst(2))
    ledger = study._ledger
    ledger.plan(1, [trial.query for trial in whole.history.trials[2:]], lambda: True)
    for _ in range(4):
        # Drivers that ran their trials in processes, and are gone.
        dead = replace(Owner.new(), pid=2**22 - 1)
        assert all(ledger.claim(entry, dead.text, apart=True) for entry in ledger.read().waiting)
        planner = Planner(
            ledger, Owner.new(), LoopOptions(Limits(n_trials=4)), policy=study.policy, is_stopping=lambda: False
        )
        assert len(planner.tend(ledger.read(), (), 2).waiting) == 2
        planner.leave()
    assert record(run(study, n_trials=4, batch_size=2)) == record(whole)
    assert {entry.retries for entry in ledger.read().entries} == {0}


def test_a_trial_on_another_machine_is_run_again_after_the_grace_period_without_a_sign_of_life():
    study = study_in()
    claimed(study, replace(Owner.new(), host="elsewhere"))
    run(study, n_trials=1, grace=0.3)
    assert study._ledger.read().entries[0].retries == 1
    assert study.trials[0].value is not None


def test_a_trial_on_another_machine_that_gives_signs_of_life_is_waited_for(monkeypatch):
    study = study_in()
    claimed(study, replace(Owner.new(), host="elsewhere"))
    ended, now, looks = threading.Event(), [0.0], [0]

    def clock():
        looks[0] += 1
        return now[0]

    def beat():
        (entry,) = study._ledger.read().running
        for count in range(1, 5):
            seen, deadline = looks[0], time.monotonic() + 60
            # The run has looked at the last sign of life.
            while looks[0] < seen + 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            study._ledger.beat(entry, str(entry.owner), count)
            now[0] += 0.7 * GRACE
        study._ledger.finish(entry, Outcome(7.0, 10.0), "them")
        ended.set()

    monkeypatch.setattr("bmbo.study.planner.SilenceWatch", lambda grace: SilenceWatch(grace, clock))
    thread = threading.Thread(target=beat)
    thread.start()
    run(study, n_trials=1, grace=GRACE)
    thread.join()
    assert ended.is_set()
    assert study.trials[0].value == 7.0
    assert study._ledger.read().entries[0].retries == 0


def test_a_run_keeps_its_own_trials_alive_while_they_take_longer_than_the_grace_period():
    study = study_in()
    beats = []

    def objective(trial):
        deadline = time.monotonic() + 60
        while study._ledger.read().entries[trial.number].beat < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        beats.append(study._ledger.read().entries[trial.number].beat)
        return 1.0

    run(study, objective, n_trials=1, grace=0.3)
    assert beats[0] >= 3


def test_a_run_that_was_taken_for_dead_neither_runs_its_trial_twice_nor_loses_it():
    study = study_in()
    ran = []

    def objective(trial):
        ran.append(trial.number)
        if len(ran) == 1:
            for entry in study._ledger.read().running:
                study._ledger.requeue(entry, entry.owner)
        return 1.0

    run(study, objective, n_trials=4, batch_size=2, executor=LastFirst(2))
    assert sorted(ran) == [0, 1, 2, 3]
    assert [trial.state for trial in study.trials] == ["complete"] * 4


def test_a_dead_planner_is_replaced(storage):
    study = study_in(storage)
    dead = study._ledger.lease(replace(Owner.new(), pid=2**22 - 1), 60.0)
    assert dead.acquire()
    assert len(run(study, n_trials=4, batch_size=2).history.done) == 4
    assert not dead.held()


def test_a_planner_that_lost_the_lease_while_it_planned_plans_again_when_it_has_it_back():
    study = study_in()
    taken = []

    @dataclass(frozen=True)
    class Slow:
        def suggest(self, seed, history, num, carry=None):
            if not taken:
                # Somebody else ends this term, and then their own.
                ledger = study._ledger
                lease_id = ledger.storage.get_study_id_from_name("study/lease")
                (term,) = ledger.storage.get_all_trials(lease_id)
                ledger.storage.set_trial_state_values(term._trial_id, TrialState.FAIL)
                taken.append(term.number)
            return random_search().suggest(seed, history, num, carry)

    study.policy = Slow()
    assert len(run(study, n_trials=3).history.done) == 3
    assert taken == [0]


def test_a_run_outlasts_a_database_that_is_locked_for_longer_than_it_waits(tmp_path, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.sqlite_files.BUSY_SECONDS", 0.05)
    path = tmp_path / "study.db"
    study = study_in(f"sqlite:///{path}")
    locked, seen = sqlite3.connect(path, isolation_level=None, check_same_thread=False), []

    def objective(trial):
        if trial.number == 1:
            locked.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(0.6, locked.rollback)
            timer.start()
            seen.append(timer)
        return bowl(trial)

    run(study, objective, n_trials=4, batch_size=2)
    seen[0].join()
    locked.close()
    assert record(study) == record(run(study_in(), n_trials=4, batch_size=2))


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("ends", ["returns", "raises", "interrupted"])
def test_a_copy_that_an_objective_forks_plans_nothing_and_finishes_nothing(storage, ends):
    study = study_in(storage)
    here, codes = os.getpid(), []

    def objective(trial):
        child = os.fork()
        if child:
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            return bowl(trial)
        if ends == "interrupted":
            raise KeyboardInterrupt
        if ends == "raises":
            raise SystemExit(3)
        return 99.0

    run(study, objective, n_trials=3)
    assert os.getpid() == here
    assert codes == [{"returns": 0, "raises": 3, "interrupted": 1}[ends]] * 3
    assert record(study) == record(run(study_in(), n_trials=3))
