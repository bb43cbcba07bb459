"""The run loop: what it plans and when, and the same record whoever runs it."""

import threading
import time
from dataclasses import dataclass

import pytest

from bmbo import Fidelity, create_study, load_study, random_search
from bmbo.ledger import Owner
from bmbo.policies.random_search import random_queries
from support import quiet_runs
from support.quiet_runs import SPACE, LastFirst, record, run, study_in
from support.small_policies import QUICK
from support.small_studies import bowl

# A fixture that both files of tests share.
storage = quiet_runs.storage


@dataclass(frozen=True)
class Watched:
    """Random queries; notes what is in flight when it is asked."""

    seen: list

    def suggest(self, seed, history, num, carry=None):
        self.seen.append((num, [trial.number for trial in history.pending], len(history.done)))
        return random_queries(seed, history.problem, len(history.trials), [1] * num), carry


@pytest.mark.parametrize("method", [random_search(), QUICK], ids=["random", "bayes"])
def test_runs_in_parallel_give_the_record_of_a_serial_run(method):
    serial = run(study_in(method=method), n_trials=11, batch_size=3)
    executor = LastFirst(3)
    parallel = run(study_in(method=method), n_trials=11, batch_size=3, executor=executor)
    assert executor.most == 3
    assert record(parallel) == record(serial)
    narrow = run(study_in(method=method), n_trials=11, batch_size=3, executor=LastFirst(2))
    assert record(narrow) == record(serial)


@pytest.mark.slow
def test_processes_of_this_machine_give_the_record_of_a_serial_run(storage):
    serial = run(study_in(), n_trials=6, batch_size=3)
    parallel = run(study_in(storage), n_trials=6, batch_size=3, n_workers=2)
    assert record(parallel) == record(serial)
    assert all(trial.seconds is not None and trial.seconds > 0 for trial in parallel.trials)


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


def test_a_run_that_may_not_plan_works_off_what_others_plan():
    study = study_in()
    planner = study._ledger.lease(Owner.new(), 60.0)
    assert planner.acquire()
    study.enqueue({"x": 0.5, "n": 3})
    run(study, timeout=600, callbacks=[lambda study, _: study.stop()])
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


def test_a_run_says_with_what_it_was_run():
    study = study_in()
    assert study.last_run is None
    run(study, total_cost=30.0, batch_size=2, asynchronous=True)
    assert study.last_run is not None
    assert (study.last_run.total_cost, study.last_run.n_trials) == (30.0, None)
    assert (study.last_run.batch_size, study.last_run.asynchronous) == (2, True)
