"""Test runs with several workers in simulated time, and their page, on cases with a closed form."""

import math
from dataclasses import replace

import numpy as np
import pytest

import bmbo
from experiments import __main__ as program
from experiments.command_options import folder_of
from experiments.harness import run_record as records
from experiments.harness.asynchronous_run import AsynchronousRun
from experiments.harness.method_interface import Asynchronous, Job, MethodEntry
from experiments.harness.packed_records import pack, read_packed
from experiments.harness.run_record import Evaluation, Record
from experiments.harness.run_settings import ASYNCHRONOUS, Settings, Task
from experiments.harness.single_run import Run, header
from experiments.methods import METHODS
from experiments.problems import Benchmark
from experiments.problems.reference_values import Reference
from experiments.reporting.wall_time import Timed, by_end, collect, end_times, time_ratios

SCALE = Reference(best=0.0, median=1.0, num_random=1, num_climbing=0)


def benchmark():
    """Return a benchmark whose value at the top is its only parameter; the costs are 1 and 10."""
    ladder = bmbo.Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(2, cost=10)])
    problem = bmbo.Problem(bmbo.Space({"x": bmbo.Float(0, 1)}), ladder, maximise=False)
    return Benchmark("line", problem, lambda config, level: config["x"] + 1 - level, 0.0)


class Counting:
    """Ask for the given levels, one after the other; the n-th job has the value 1 / n at the top.

    `waits` are numbers of jobs that are asked for only when nothing runs.
    """

    batch_size = 1

    def __init__(self, levels, waits=()):
        self.levels, self.waits = list(levels), set(waits)
        self.asked, self.running, self.told = 0, set(), []

    def start(self, num):
        found = {}
        while len(found) < num and self.asked < len(self.levels):
            if self.asked in self.waits and (self.running or found):
                break
            found[self.asked] = Job({"x": 1 / (self.asked + 1)}, self.levels[self.asked])
            self.asked += 1
        self.running |= set(found)
        return found

    def finish(self, number, value):
        self.running.remove(number)
        self.told.append((number, value))

    def ask(self):
        self.flying = list(self.start(self.batch_size).items())
        return [job for _, job in self.flying]

    def tell(self, _jobs, values):
        for (number, _), value in zip(self.flying, values, strict=True):
            self.finish(number, value)

    def recommend(self):
        return None


def played(optimiser, workers, *, schedule=ASYNCHRONOUS, total_cost=1000.0):
    """Return the record of a run."""
    optimiser.batch_size = workers
    entry = MethodEntry("counting", lambda *_: optimiser, False, True, "", "")
    settings, found = Settings(total_cost, workers, 0, False, schedule), []
    kind = AsynchronousRun if schedule == ASYNCHRONOUS else Run
    reason = kind(benchmark(), entry, settings, found.append).execute(0)
    head = header(benchmark(), entry, settings)
    return Record(Task("line", "counting", 0), head, tuple(found), reason=reason)


def test_a_worker_gets_a_new_job_as_soon_as_it_is_free():
    optimiser = Counting([1, 0, 0, 0, 1, 0])
    record = played(optimiser, 2)
    # The first worker is busy until 10. The second one ends cheap jobs at 1, 2 and 3, and then is busy until 13. The
    # first one goes on with the last job at 10.
    assert [row.ended for row in record.evaluations] == [10, 1, 2, 3, 13, 11]
    assert [row.level for row in record.evaluations] == [1, 0, 0, 0, 1, 0]
    assert [row.batch for row in record.evaluations] == [1, 1, 2, 3, 4, 5]
    assert [number for number, _ in optimiser.told] == [1, 2, 3, 0, 5, 4]


def test_in_batches_all_wait_for_the_longest_job():
    record = played(Counting([1, 0, 0, 0, 1, 0]), 2, schedule="sync")
    assert all(row.ended is None for row in record.evaluations)
    np.testing.assert_allclose(end_times(record), [10, 1, 11, 11, 21, 12])
    ended, times = by_end(record)
    np.testing.assert_allclose(times, [1, 10, 11, 11, 12, 21])
    assert [row.level for row in ended.evaluations] == [0, 1, 0, 0, 0, 1]


def test_jobs_that_end_together_are_told_together():
    record = played(Counting([1] * 7), 3)
    assert [row.ended for row in record.evaluations] == [10] * 3 + [20] * 3 + [30]
    assert [row.batch for row in record.evaluations] == [1] * 3 + [2] * 3 + [3]


@pytest.mark.parametrize("workers", [1, 5])
@pytest.mark.parametrize("schedule", ["sync", "async"])
def test_equal_jobs_give_the_closed_form_under_both_schedules(workers, schedule):
    record = played(Counting([1] * 20), workers, schedule=schedule, total_cost=200.0)
    timed = Timed.of(record, SCALE, 0.0)
    # After n jobs the best value is 1 / n. After the time of k jobs, there are k for each worker.
    np.testing.assert_allclose(
        timed.at([1, 2, 4]), [[1, 1 / 2, 1 / 4], [1 / workers, 1 / 2 / workers, 1 / 4 / workers]]
    )
    assert timed.time_to(1 / 20) == 20 / workers
    assert timed.time_to(1 / 21) == math.inf


def test_what_lies_beyond_the_total_cost_does_not_count():
    timed = Timed.of(played(Counting([1] * 20), 5, total_cost=120.0), SCALE, 0.0)
    assert timed.over_time.at(math.inf) == pytest.approx(1 / 12)


def test_a_method_may_wait_for_what_runs_and_may_end():
    record = played(Counting([1, 1, 1], waits=[2]), 3)
    assert [row.ended for row in record.evaluations] == [10, 10, 20]
    assert record.reason == "it asked for nothing more at a cost of 30"
    record = played(Counting([1, 1, 1]), 3, total_cost=35.0)
    assert record.reason == ""


def test_a_method_that_asks_in_batches_only_is_told_so():
    class Batches:
        def ask(self): ...

        def tell(self, jobs, values): ...

        def recommend(self): ...

    with pytest.raises(ValueError, match="counting cannot start jobs while others run; use the schedule sync"):
        played(Batches(), 2)


def test_runs_with_common_starts_have_no_simulated_times():
    record = played(Counting([1]), 1)
    started = replace(record, evaluations=(Evaluation(0, 1, 1.0, 1.0), *record.evaluations))
    with pytest.raises(ValueError, match="has common starts"):
        end_times(started)


@pytest.mark.parametrize("name", ["screening", "optuna_tpe", "optuna_tpe_hyperband"])
def test_methods_plan_while_jobs_run(name):
    settings, found = Settings(100.0, 3, 0, False, ASYNCHRONOUS), []
    entry = METHODS[name]
    assert isinstance(entry.factory(benchmark().problem, 0, 3, [], 100.0), Asynchronous)
    AsynchronousRun(benchmark(), entry, settings, found.append).execute(1)
    record = Record(Task("line", name, 1), header(benchmark(), entry, settings), tuple(found))
    asked = [(row.level, row.value) for row in found if row.level == 1]
    assert len(asked) == len(set(asked))
    times = end_times(record)
    starts = times - np.array([1.0, 10.0])[[row.level for row in found]]
    # Never more jobs than workers, and never fewer while there is cost left.
    running = [int(np.sum((starts <= at) & (times > at))) for at in np.unique(starts)]
    assert max(running) == 3
    assert sum([1.0, 10.0][row.level] for row in found) <= 100.0 + 20.0


def test_the_schedule_and_the_times_are_kept_in_records(tmp_path):
    plain, timed = played(Counting([1, 0]), 2, schedule="sync"), played(Counting([1, 0]), 2)
    assert "schedule" not in plain.header["settings"]
    assert all('"ended"' not in line for line in records.lines(plain))
    for place, record in enumerate((plain, timed)):
        assert records.parse(records.lines(record)) == record
        pack([record], tmp_path / str(place))
        assert read_packed(tmp_path / str(place)) == [record]


def written(folder, record):
    records.write(folder, record.task, records.lines(record))


def test_the_page_compares_at_equal_cost_and_at_equal_time(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.reporting.wall_time_page.MARKS", (1.0, 4.0))
    monkeypatch.setattr("experiments.reporting.wall_time.MARKS", (1.0, 4.0))
    folder, common = tmp_path / "records", {"total_cost": 200.0}
    options = ["times", "--method", "counting", "--records", str(folder), "--packed", str(tmp_path / "none")]
    options += ["--out", str(tmp_path / "page.md")]
    task = Task("rosenbrock_8", "counting", 0)
    for workers, schedule in ((1, "sync"), (5, "sync"), (5, "async")):
        record = played(Counting([1] * 20), workers, schedule=schedule, **common)
        written(folder / folder_of("development", workers, schedule), replace(record, task=task))
        if workers == 1:
            assert program.main(options) == 2
            assert "one at a time and with 5 workers" in capsys.readouterr().err
    found = {
        name: records.read_all(folder / folder_of("development", workers, "sync"))
        for name, workers in (("one", 1), ("five", 5))
    }
    runs = collect(found, {"rosenbrock_8": SCALE}, "counting")
    # 1 / 20 after 20 jobs, which five workers have after the time of 4.
    assert time_ratios(runs, "five", "one", 0.5) == [pytest.approx(1 / 5)]
    assert program.main(options) == 0
    text = (tmp_path / "page.md").read_text()
    assert "5 workers, no waiting" in text
    assert "| batches of 5 | 100% | 1 | 0.2 | 0% |" in text
