"""Test the rules of a run: starts, costs, what is asked and what is recorded."""

import math
from pathlib import Path

import numpy as np
import pytest

import bmbo
from bmbo import methods
from bmbo.protocols import Recommendation
from experiments.harness.method_interface import Job, MethodEntry, Optimiser
from experiments.harness.run_record import Evaluation, Record
from experiments.harness.run_settings import Settings, Task
from experiments.harness.single_run import Run, header, starting_design
from experiments.methods import METHODS
from experiments.methods.own_methods import ENTRIES, OwnMethod
from experiments.problems import Benchmark
from experiments.reporting.curves import cumulative_costs, curve


def ladder_problem(maximise=False):
    ladder = bmbo.Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(2, cost=10)])
    return bmbo.Problem(bmbo.Space({"x": bmbo.Float(0, 1)}), ladder, maximise=maximise)


def parabola(evaluated=None):
    """Return a benchmark with its minimum at 0.25. The low level is off by one. Evaluations are added to the list."""

    def objective(config, level):
        if evaluated is not None:
            evaluated.append((config["x"], level))
        return (config["x"] - 0.25) ** 2 + 1 - level

    return Benchmark("parabola", ladder_problem(), objective, 0.0)


class Scripted:
    """Ask for the given batches and recommend the given configurations."""

    def __init__(self, batches, recommendations=()):
        self.batches, self.recommendations = list(batches), list(recommendations)
        self.calls = []

    def ask(self):
        self.calls.append("ask")
        return self.batches.pop(0) if self.batches else []

    def tell(self, jobs, values):
        self.calls.append(("tell", len(jobs), list(values)))

    def recommend(self):
        self.calls.append("recommend")
        return self.recommendations.pop(0) if self.recommendations else None


def played(
    optimiser, *, takes_starts=True, batch=True, total_cost=100.0, num_starts=1, seed=0, judged=True, evaluated=None
):
    """Return the record of a run with this optimiser, and the arguments of its factory."""
    given = []

    def factory(*arguments):
        given.extend(arguments)
        return optimiser

    entry = MethodEntry("scripted", factory, takes_starts, batch, "", "")
    settings, found = Settings(total_cost, 3, num_starts, judged), []
    benchmark = parabola(evaluated)
    reason = Run(benchmark, entry, settings, found.append).execute(seed)
    made = Record(Task("parabola", "scripted", seed), header(benchmark, entry, settings), tuple(found), reason=reason)
    return made, given


def test_the_starting_design_is_the_same_for_every_method_and_differs_between_seeds():
    benchmark = parabola()
    first, again, other = (starting_design(benchmark, 4, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert [job.level for job, _ in first] == [0] * 4 + [1] * 4
    assert all(value == benchmark.evaluate(job.config, job.level) for job, value in first)


def test_costs_are_counted_by_the_harness_and_the_run_ends_at_the_total():
    batches = [[Job({"x": 0.1}, 0), Job({"x": 0.2}, 1)]] * 10
    record, given = played(Scripted(batches), total_cost=40.0)
    # The starts cost 11, and each batch costs 11. The third batch exceeds 40.
    np.testing.assert_allclose(cumulative_costs(record), [1, 11, 12, 22, 23, 33, 34, 44])
    assert [row.batch for row in record.evaluations] == [0, 0, 1, 1, 2, 2, 3, 3]
    _, seed, batch_size, starts, total_cost = given
    assert (seed, batch_size, total_cost, len(starts)) == (0, 3, 29.0, 2)
    assert record.reason == ""


def test_a_method_that_takes_no_starts_is_charged_their_cost():
    record, given = played(Scripted([[Job({"x": 0.1}, 1)]] * 10), takes_starts=False, total_cost=31.0)
    assert given[3] == []
    np.testing.assert_allclose(cumulative_costs(record)[:2], [21, 31])
    # It spends as much as methods that paid for starts, so that it can be shown without the charge too.
    np.testing.assert_allclose(cumulative_costs(record, charged=False), [10, 20, 30, 40])
    assert given[4] == 31.0


def test_a_sequential_method_is_asked_for_one_job_at_a_time():
    _, given = played(Scripted([]), batch=False)
    assert given[2] == 1


def test_a_method_that_asks_for_nothing_ends_its_run_with_a_reason():
    record, _ = played(Scripted([[Job({"x": 0.1}, 1)]]))
    assert record.reason == "it asked for nothing more at a cost of 21"


def test_what_is_recommended_is_asked_after_each_ask_and_once_at_the_end():
    optimiser = Scripted([[Job({"x": 0.5}, 0)], [Job({"x": 0.5}, 1)]], [{"x": 0.75}, {"x": 0.25}])
    record, _ = played(optimiser, total_cost=22.0)
    assert [call if isinstance(call, str) else call[0] for call in optimiser.calls] == [
        "ask",
        "recommend",
        "tell",
        "ask",
        "recommend",
        "tell",
        "recommend",
    ]
    # After the starts, and after the first batch. Then it recommends nothing, so the best value at the top counts.
    best = min(row.value for row in record.evaluations if row.level == 1 and row.value is not None)
    assert [row.recommended for row in record.evaluations] == [None, 0.25, 0.0, pytest.approx(best)]


def test_every_query_is_valued_at_the_top_outside_the_cost():
    record, _ = played(Scripted([[Job({"x": 0.25}, 0)]]))
    assert record.evaluations[-1] == Evaluation(
        1, 0, 1.0, 0.0, record.evaluations[-1].wall, record.evaluations[-1].cpu, record.evaluations[-1].recommended
    )
    assert curve(record, "paper").loss[-1] == 0.0
    assert curve(record, "observed").loss[-1] > 0.0


def test_unjudged_nothing_is_evaluated_outside_the_cost_but_the_last_recommendation():
    optimiser = Scripted([[Job({"x": 0.25}, 0)], [Job({"x": 0.5}, 1)]], [{"x": 0.3125}])
    record, _ = played(optimiser, total_cost=22.0, judged=False, evaluated=(evaluated := []))
    # After one start at each level.
    assert evaluated[2:] == [(0.25, 0), (0.5, 1), (0.3125, 1)]
    assert [row.top is None for row in record.evaluations] == [True, False, True, False]
    assert [row.recommended for row in record.evaluations] == [None, None, None, 0.0625**2]
    assert len(curve(record, "paper").loss) == 0
    assert curve(record, "recommended").loss[-1] == 0.0625**2


def test_unjudged_the_last_recommendation_within_the_cost_is_evaluated_too():
    # The starts cost 11. The second batch exceeds 22 and does not count.
    optimiser = Scripted([[Job({"x": 0.25}, 0)], [Job({"x": 0.5}, 1)] * 2], [{"x": 0.75}, {"x": 0.3125}])
    record, _ = played(optimiser, total_cost=22.0, judged=False, evaluated=(evaluated := []))
    assert evaluated[2:] == [(0.25, 0), (0.75, 1), (0.5, 1), (0.5, 1), (0.3125, 1)]
    assert curve(record, "recommended").at(22.0) == 0.25


def test_unjudged_the_recommendation_of_a_method_that_asks_for_nothing_more_is_evaluated():
    record, _ = played(Scripted([[Job({"x": 0.25}, 0)]], [{"x": 0.3125}]), judged=False)
    assert curve(record, "recommended").loss[-1] == 0.0625**2


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([Job({"x": 0.1}, 0)] * 4, "asked for 4 jobs at once"),
        ([Job({"x": 0.1}, 2)], "asked for level 2"),
        ([Job({"x": 1.5}, 0)], "must lie between 0 and 1"),
    ],
)
def test_a_method_that_breaks_the_rules_is_told_how(jobs, message):
    with pytest.raises(ValueError, match=message):
        played(Scripted([jobs]))


def test_evaluations_before_a_crash_are_kept():
    class Breaks(Scripted):
        def tell(self, jobs, values):
            raise RuntimeError(f"broken by {len(jobs)} jobs and {len(values)} values")

    found = []
    entry = MethodEntry("breaks", lambda *_: Breaks([[Job({"x": 0.1}, 1)]]), True, True, "", "")
    with pytest.raises(RuntimeError, match="broken"):
        Run(parabola(), entry, Settings(100.0, 3, 1), found.append).execute(0)
    assert [row.batch for row in found] == [0, 0, 1]


def test_our_methods_are_optimisers_that_keep_to_the_total_cost():
    assert isinstance(Scripted([]), Optimiser)
    optimiser = METHODS["random"].factory(ladder_problem(), 0, 4, [], 25.0)
    jobs = optimiser.ask()
    assert [job.level for job in jobs] == [1, 1]
    optimiser.tell(jobs, [1.0, math.nan])
    assert optimiser.ask() == []
    assert optimiser.recommend() is None


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_method_of_ours_can_be_made_by_its_name(entry):
    optimiser = entry.factory(ladder_problem(), 0, 4, [], 25.0)
    assert optimiser.recommend() is None
    assert entry.where.removeprefix("bmbo.methods.") in methods.__all__


def test_our_method_with_a_surrogate_confirms_its_recommendation_once():
    class Oracle:
        """Suggest the cheap level and recommend 0.75."""

        def suggest(self, seed, history, num, carry=None):  # noqa: ARG002
            return [bmbo.Query((0.5,), 0)] * num, carry

        def recommendation(self, seed, history, carry=None):  # noqa: ARG002
            return Recommendation((0.75,), 0.0, 1.0), carry

    optimiser = OwnMethod(Oracle(), ladder_problem(), seed=0, batch_size=2, starts=[], total_cost=14.5)
    asked = []
    while jobs := optimiser.ask():
        asked += [(job.config["x"], job.level) for job in jobs]
        optimiser.tell(jobs, [1.0] * len(jobs))
    assert asked == [(0.5, 0)] * 4 + [(0.75, 1)]
    assert optimiser.recommend() == {"x": 0.75}


class Climber:
    """Ask for the top level twice, then for the cheap level, and recommend the first point."""

    def suggest(self, seed, history, num, carry=None):  # noqa: ARG002
        visited = sum(trial.query.level == 1 for trial in history.trials)
        return [bmbo.Query((0.25 + 0.25 * visited,), int(visited < 2))] * num, carry

    def recommendation(self, seed, history, carry=None):  # noqa: ARG002
        return Recommendation(history.trials[0].query.unit, 0.0, 1.0), carry


def asked_of(optimiser):
    asked = []
    while jobs := optimiser.ask():
        asked += [(job.config["x"], job.level) for job in jobs]
        optimiser.tell(jobs, [1.0] * len(jobs))
    return asked


def test_what_needs_no_confirmation_leaves_its_cost_to_the_search():
    optimiser = OwnMethod(Climber(), ladder_problem(), seed=0, batch_size=1, starts=[], total_cost=25.0)
    assert asked_of(optimiser) == [(0.25, 1), (0.5, 1)]


def test_our_method_ends_when_the_rest_does_not_pay_for_the_top():
    class Far(Climber):
        def recommendation(self, seed, history, carry=None):  # noqa: ARG002
            return Recommendation((0.75,), 0.0, 1.0), carry

    optimiser = OwnMethod(Far(), ladder_problem(), seed=0, batch_size=1, starts=[], total_cost=25.0)
    assert asked_of(optimiser) == [(0.25, 1), (0.75, 1)]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_in_the_table_of_methods(name):
    assert f"`{name}`" in (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
