"""The run loop: the same record whoever runs it, however often it dies."""

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from optuna.trial import TrialState

from bmbo import Fidelity, Float, Int, create_study, load_study, random_search
from bmbo.ledger import Owner
from bmbo.policies.random import random_queries
from bmbo.protocols import Finished
from bmbo.trial import Outcome
from test_policies import INFORMED, Fake, Noted

SPACE = {"x": Float(0, 1), "n": Int(1, 9)}
FIDELITIES = [Fidelity(1, cost=1), Fidelity(10, cost=10)]
QUICK = replace(INFORMED, surrogate=Fake([]), select=Noted([]))


def study_in(storage=None, method=None, name="study", **options):
    return create_study(
        study_name=name,
        storage=storage,
        load_if_exists=True,
        space=SPACE,
        fidelities=FIDELITIES,
        method=method or random_search(),
        **options,
    )


def bowl(trial):
    return (trial.params["x"] - 0.3) ** 2 + 0.1 * trial.params["n"] + 0.1 * trial.level


def run(study, objective=bowl, **options):
    study.optimize(objective, show_progress_bar=False, **options)
    return study


def record(study):
    """All but durations."""
    return [
        (t.number, t.query, t.outcome and (t.outcome.value, t.outcome.cost, t.outcome.error))
        for t in study.history.trials
    ]


@pytest.fixture(params=["sqlite", "journal"])
def storage(request, tmp_path):
    return {"sqlite": f"sqlite:///{tmp_path}/study.db", "journal": str(tmp_path / "study.log")}[request.param]


@dataclass
class LastFirst:
    """An executor that finishes what it began last; jobs may be lost on the way."""

    num_workers: int = 3
    lose: set = field(default_factory=set)
    jobs: dict = field(default_factory=dict)
    most: int = 0

    def submit(self, number, job):
        assert len(self.jobs) < self.num_workers
        self.jobs[number] = job
        self.most = max(self.most, len(self.jobs))

    def collect(self, seconds):
        if not self.jobs:
            time.sleep(min(seconds, 0.01))
            return []
        number, job = self.jobs.popitem()
        if number in self.lose:
            self.lose.remove(number)
            return [Finished(number, lost=True, error="the node is gone")]
        try:
            return [Finished(number, job(), 0.5)]
        except Exception as error:
            return [Finished(number, None, 0.5, f"{type(error).__name__}: {error}", error)]

    def close(self):
        self.jobs.clear()


@dataclass(frozen=True)
class Watched:
    """Random queries; notes what is in flight when it is asked."""

    seen: list

    def suggest(self, key, history, num, carry=None):
        self.seen.append((num, [trial.number for trial in history.pending], len(history.done)))
        return random_queries(key, history.problem, len(history.trials), [1] * num), carry


@pytest.mark.parametrize("method", [random_search(), QUICK], ids=["random", "bayes"])
def test_runs_in_parallel_give_the_record_of_a_serial_run(method):
    serial = run(study_in(method=method), n_trials=11, batch_size=3)
    executor = LastFirst(3)
    parallel = run(study_in(method=method), n_trials=11, batch_size=3, executor=executor)
    assert executor.most == 3
    assert record(parallel) == record(serial)
    narrow = run(study_in(method=method), n_trials=11, batch_size=3, executor=LastFirst(2))
    assert record(narrow) == record(serial)


def test_processes_of_this_machine_give_the_record_of_a_serial_run(storage):
    serial = run(study_in(), n_trials=6, batch_size=3)
    parallel = run(study_in(storage), n_trials=6, batch_size=3, n_workers=2)
    assert record(parallel) == record(serial)
    assert all(trial.seconds > 0 for trial in parallel.trials)


def test_batches_are_planned_when_all_is_done():
    seen = []
    run(study_in(method=Watched(seen)), n_trials=6, batch_size=3, executor=LastFirst(3))
    assert seen == [(3, [], 0), (3, [], 3)]


def test_an_asynchronous_run_plans_with_what_is_in_flight():
    seen = []
    study = run(study_in(method=Watched(seen)), n_trials=6, executor=LastFirst(3), asynchronous=True)
    assert seen == [(3, [], 0), (1, [0, 1], 1), (1, [0, 1], 2), (1, [0, 1], 3)]
    assert len(study.history.done) == 6


def test_asynchronously_more_may_be_kept_in_flight_than_there_are_places():
    seen = []
    run(study_in(method=Watched(seen)), n_trials=8, executor=LastFirst(2), asynchronous=True, batch_size=4)
    assert seen[0] == (4, [], 0)
    assert seen[1][:2] == (1, [0, 2, 3])


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
from test_runner import bowl, run, study_in

def objective(trial):
    if trial.number == {when}:
        os.kill(os.getpid(), signal.SIGKILL)
    return bowl(trial)

run(study_in({storage!r}), objective, total_cost=60, batch_size=3)
"""


def test_a_killed_run_that_is_resumed_has_the_record_of_one_that_was_not(storage):
    whole = run(study_in(), total_cost=60, batch_size=3)
    script = KILLED.format(tests=str(Path(__file__).parent), storage=storage, when=4)
    killed = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    study = study_in(storage)
    assert [trial.state for trial in study.trials] == ["complete"] * 4 + ["running", "waiting"]
    assert record(run(study, total_cost=60, batch_size=3)) == record(whole)
    assert [entry.retries for entry in study._ledger.read().entries] == [0, 0, 0, 0, 1, 0]


def test_the_first_interrupt_lets_what_runs_finish_and_starts_nothing_more(caplog):
    def objective(trial):
        if trial.number == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return bowl(trial)

    before = signal.getsignal(signal.SIGINT)
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        study = run(study_in(), objective, n_trials=6, batch_size=3)
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


def test_a_trial_on_another_machine_is_run_again_after_the_grace_period_without_a_sign_of_life():
    study = study_in()
    claimed(study, replace(Owner.new(), host="elsewhere"))
    run(study, n_trials=1, grace=0.3)
    assert study._ledger.read().entries[0].retries == 1
    assert study.trials[0].value is not None


def test_a_trial_on_another_machine_that_gives_signs_of_life_is_waited_for():
    study = study_in()
    claimed(study, replace(Owner.new(), host="elsewhere"))
    ended = threading.Event()

    def beat():
        (entry,) = study._ledger.read().running
        for count in range(1, 12):
            study._ledger.beat(entry, count)
            time.sleep(0.1)
        study._ledger.finish(entry, Outcome(7.0, 10.0), "them")
        ended.set()

    thread = threading.Thread(target=beat)
    thread.start()
    run(study, n_trials=1, grace=0.6)
    thread.join()
    assert ended.is_set()
    assert study.trials[0].value == 7.0
    assert study._ledger.read().entries[0].retries == 0


def test_a_run_keeps_its_own_trials_alive_while_they_take_longer_than_the_grace_period():
    study = study_in()
    beats = []

    def objective(trial):
        deadline = time.monotonic() + 10
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


def test_trials_that_a_user_asked_for_are_left_to_the_user():
    study = study_in()
    (asked,) = study.ask()
    run(study, n_trials=3, grace=0.1)
    assert [trial.state for trial in study.trials] == ["running", "complete", "complete"]
    study.tell(asked, 1.0)
    assert not study.history.pending


def test_several_runs_at_once_share_one_study(storage):
    study_in(storage)
    ran = []

    def work():
        def objective(trial):
            ran.append(trial.number)
            time.sleep(0.01)
            return bowl(trial)

        run(
            load_study(study_name="study", storage=storage, method=random_search()),
            objective,
            n_trials=18,
            batch_size=6,
        )

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ran) == list(range(18))
    assert record(study_in(storage)) == record(run(study_in(), n_trials=18, batch_size=6))


def test_a_dead_planner_is_replaced(storage):
    study = study_in(storage)
    dead = study._ledger.lease(replace(Owner.new(), pid=2**22 - 1), 60.0)
    assert dead.acquire()
    assert len(run(study, n_trials=4, batch_size=2).history.done) == 4
    assert not dead.held()


def test_a_run_that_may_not_plan_works_off_what_others_plan():
    study = study_in()
    planner = study._ledger.lease(Owner.new(), 60.0)
    assert planner.acquire()
    study.enqueue({"x": 0.5, "n": 3})
    run(study, timeout=0.3)
    assert [trial.state for trial in study.trials] == ["complete"]
    planner.release()


def test_stopping_from_a_callback_ends_the_run_and_callbacks_see_each_finished_trial():
    seen = []

    def callback(study, trial):
        seen.append((trial.number, trial.value, trial.state, len(study.history.done)))
        if trial.number == 2:
            study.stop()

    study = run(study_in(), n_trials=9, callbacks=[callback])
    assert [number for number, *_ in seen] == [0, 1, 2]
    assert [state for *_, state, _ in seen] == ["complete"] * 3
    assert [count for *_, count in seen] == [1, 2, 3]
    assert seen[0][1] == study.trials[0].value
    with pytest.raises(RuntimeError, match="none is under way"):
        study.stop()


def test_a_callback_that_fails_ends_the_run_and_loses_nothing():
    def callback(study, trial):
        del study, trial
        raise ZeroDivisionError("in a callback")

    study = study_in()
    with pytest.raises(ZeroDivisionError, match="in a callback"):
        run(study, n_trials=4, batch_size=2, callbacks=[callback])
    assert [trial.state for trial in study.trials] == ["complete", "waiting"]


def test_an_exception_that_is_not_caught_ends_the_run_after_what_runs():
    def objective(trial):
        if trial.number == 2:
            raise ZeroDivisionError("no")
        return 1.0

    study = study_in()
    with pytest.raises(ZeroDivisionError, match="no"):
        run(study, objective, n_trials=9, batch_size=5, executor=LastFirst(3))
    # 2 was begun last and so ended first; 0 and 1 ran; 3 and 4 were not begun.
    assert [trial.state for trial in study.trials] == ["complete", "complete", "failed", "waiting", "waiting"]


def test_one_study_is_not_run_twice_in_one_place():
    study = study_in()

    def objective(trial):
        del trial
        run(study, n_trials=3)

    with pytest.raises(RuntimeError, match="is being run already"):
        run(study, objective, n_trials=1)


def test_measured_costs_are_the_durations_and_pay_the_budget():
    fidelities = [Fidelity(1, cost="measure"), Fidelity(10, cost="measure")]
    study = create_study(space=SPACE, fidelities=fidelities, method=random_search())
    study.optimize(bowl, total_cost=2.2, executor=LastFirst(1), show_progress_bar=False)
    # Half a second each, foreseen as one before the first is known.
    assert [trial.cost for trial in study.trials] == [0.5] * 4
    assert study.history.priced.ladder.costs == (0.05, 0.5)


def test_trials_that_a_user_queued_do_not_exceed_the_budget_and_are_not_waited_for():
    study = study_in()
    for x in (0.1, 0.2, 0.3):
        study.enqueue({"x": x, "n": 3})
    run(study, total_cost=25)
    assert [trial.state for trial in study.trials] == ["complete", "complete", "waiting"]
    assert study.history.spent == 20.0
    run(study, total_cost=30)
    assert study.history.spent == 30.0


def test_an_executor_of_ones_own_serves_several_runs_and_is_closed_after_an_exception():
    class Noting(LastFirst):
        closed = False

        def close(self):
            self.closed = True

    executor, study = Noting(2), study_in()
    run(study, n_trials=2, executor=executor)
    run(study, n_trials=4, executor=executor)
    assert not executor.closed
    with pytest.raises(ZeroDivisionError):
        run(study, lambda _: 1 / 0, n_trials=5, executor=executor)
    assert executor.closed


def test_a_planner_that_lost_the_lease_while_it_planned_plans_again_when_it_has_it_back():
    study = study_in()
    taken = []

    @dataclass(frozen=True)
    class Slow:
        def suggest(self, key, history, num, carry=None):
            if not taken:
                # Somebody else ends this term, and then their own.
                ledger = study._ledger
                lease_id = ledger.storage.get_study_id_from_name("study/lease")
                (term,) = ledger.storage.get_all_trials(lease_id)
                ledger.storage.set_trial_state_values(term._trial_id, TrialState.FAIL)
                taken.append(term.number)
            return random_search().suggest(key, history, num, carry)

    study.policy = Slow()
    assert len(run(study, n_trials=3).history.done) == 3
    assert taken == [0]


def test_a_run_says_with_what_it_was_run():
    study = study_in()
    assert study.last_run is None
    run(study, total_cost=30.0, batch_size=2, asynchronous=True)
    assert study.last_run is not None
    assert (study.last_run.total_cost, study.last_run.n_trials) == (30.0, None)
    assert (study.last_run.batch_size, study.last_run.asynchronous) == (2, True)


def test_a_run_outlasts_a_database_that_is_locked_for_longer_than_it_waits(tmp_path, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.storage.BUSY_SECONDS", 0.05)
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
