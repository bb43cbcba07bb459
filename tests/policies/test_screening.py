"""The screening method: its start, its contract, awkward histories, and its recommendation."""

import logging
from dataclasses import dataclass

import numpy as np
import pytest

import bmbo
from bmbo.history import History, Outcome, Query
from bmbo.history.host_observations import Observations
from bmbo.policies.ladder_start import LadderStart, promoted, space_filling
from bmbo.policies.screening import Screening
from bmbo.problem import Categorical, Fidelity, Int, Ladder, Problem, Space
from bmbo.protocols import Budgeted, Explaining, SelfConfirming
from bmbo.testing import check_policy

SEED = 0
MIXED = Space(
    {
        "x": bmbo.Float(0, 1),
        "on": Categorical([False, True]),
        "kind": Categorical(["a", "b", "c", "d"]),
        "rate": bmbo.Float(1e-4, 1, log=True),
        "n": Int(1, 300, log=True),
    }
)
PLANE = Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})


def problem_of(space, costs, maximise=False):
    return Problem(space, Ladder([Fidelity(level, cost=cost) for level, cost in enumerate(costs)]), maximise)


def told(history, query, value):
    number, cost = len(history.trials), history.problem.ladder.costs[query.level]
    return history.asked(query).with_outcome(number, Outcome.of(value, cost))


def drive(problem, objective, budget, batch=1, policy=None):
    """A whole run without the planner."""
    history, carry = History(problem), None
    policy = (policy or bmbo.screening()).within(budget, None)
    while True:
        queries, carry = policy.suggest(SEED, history, batch, carry)
        if not queries:
            return history
        for query in queries:
            history = told(history, query, objective(query.unit, query.level))


def bowl(unit, level):
    return sum((u - 0.3) ** 2 for u in unit) * (1 + level)


def test_it_is_a_policy_that_recommends_and_knows_budgets():
    assert isinstance(bmbo.screening(), SelfConfirming)
    assert isinstance(bmbo.screening(), Budgeted)
    with pytest.raises(ValueError, match="share"):
        bmbo.screening(start_share=0.0)


def test_it_keeps_the_contract_of_a_policy():
    # With twelve trials in all, the start has six: the third round is the model's.
    check_policy(bmbo.screening().within(None, 12), problem_of(PLANE, (1.0, 10.0)), num=3, rounds=3)


def test_another_seed_gives_another_start_and_the_same_seed_the_same():
    history = History(problem_of(PLANE, (1.0, 10.0)))
    starts = {seed: tuple(bmbo.screening().suggest(seed, history, 2)[0]) for seed in range(5)}
    assert len({query.unit for start in starts.values() for query in start}) == 10
    assert tuple(bmbo.screening().suggest(3, history, 2)[0]) == starts[3]


AWKWARD = {
    "ties": lambda first: 1.0 + 0.0 * first,
    "failures": lambda first: float("nan") * first,
    "half fails": lambda first: float("nan") if first > 0.5 else first,
    "diverges": lambda first: 10.0 ** (300 * first),
    "steps": lambda first: float(round(3 * first)),
}


@pytest.mark.parametrize("story", AWKWARD)
def test_awkward_values_never_stop_a_run(story):
    def objective(unit, level):
        del level
        return AWKWARD[story](unit[0])

    history = drive(problem_of(MIXED, (0.1, 0.3, 1.0)), objective, 3.0, batch=3)
    assert sum(trial.query.level == 2 for trial in history.trials) >= 2
    assert 2.0 < history.spent <= 3.0 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("costs", [(1.0,), (0.5, 1.0), (0.03, 0.06, 0.12, 0.25, 0.5, 1.0), (0.001, 1.0)])
def test_any_number_of_levels(costs):
    history = drive(problem_of(PLANE, costs), bowl, 8.0, batch=2)
    assert history.best is not None
    assert bowl(history.best.query.unit, 0) < 0.05


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("continues", [False, True])
def test_a_range_of_fidelities_is_climbed_in_wide_steps(continues):
    ladder = Ladder(bmbo.FidelityRange(4, 64, log=True))
    history = drive(
        Problem(PLANE, ladder, continues=continues), lambda unit, level: bowl(unit, 0) - level / 99, 5.0 * 64
    )
    levels = {trial.query.level for trial in history.trials}
    assert {0, ladder.top} < levels
    assert len(levels) <= 9
    assert history.trials[0].query.level == 0
    assert history.best is not None
    assert bowl(history.best.query.unit, 0) < 0.1
    again, _ = bmbo.screening().within(5.0 * 64, None).suggest(SEED, History(history.problem), 3)
    assert again == [trial.query for trial in history.trials[:3]]


def test_a_run_repeats_itself_whatever_the_unit_of_costs_and_the_cache():
    problem = problem_of(MIXED, (0.125, 0.25, 1.0))
    first = drive(problem, bowl, 3.0)
    queries = [trial.query for trial in first.trials]
    dearer = drive(problem_of(MIXED, (128.0, 256.0, 1024.0)), bowl, 3.0 * 1024)
    assert [trial.query for trial in dearer.trials] == queries
    assert len({(query.unit, query.level) for query in queries}) == len(queries)
    part = History(problem)
    for trial in first.trials[:-1]:
        part = told(part, trial.query, trial.value)
    assert bmbo.screening().within(3.0, None).suggest(SEED, part, 1)[0] == [queries[-1]]


def test_queries_in_flight_are_not_asked_again():
    history = drive(problem_of(MIXED, (0.1, 1.0)), bowl, 2.0)
    policy, waiting = bmbo.screening(), []
    for _ in range(5):
        queries, _ = policy.suggest(SEED, history, 1)
        history = history.asked(queries[0])
        waiting += queries
    assert len({(query.unit, query.level) for query in waiting}) == 5


def test_a_small_space_may_be_exhausted():
    space = Space({"n": Int(1, 3), "on": Categorical([False, True])})
    history = drive(problem_of(space, (0.2, 1.0)), bowl, 8.0)
    assert len({trial.query.unit for trial in history.trials if trial.query.level == 1}) == 6


def test_the_last_trial_is_at_the_top():
    problem = problem_of(PLANE, (0.1, 0.3, 1.0))
    history = History(problem)
    for left in range(6, 0, -1):
        queries, _ = bmbo.screening().within(None, 6).suggest(SEED, history, left)
        history = told(history, queries[0], bowl(queries[0].unit, queries[0].level))
    assert history.trials[-1].query.level == 2


def test_without_a_budget_nothing_is_refused_and_without_money_for_the_top_everything():
    history = drive(problem_of(PLANE, (0.1, 1.0)), bowl, 3.0)
    assert len(bmbo.screening().suggest(SEED, history, 3)[0]) == 3
    assert bmbo.screening().within(3.5, None).suggest(SEED, history, 3)[0] == []


@dataclass(frozen=True)
class Broken:
    """A surrogate whose numbers always fail."""

    def fit(self, observations, carry=None):
        del observations, carry
        raise np.linalg.LinAlgError("not positive definite")


def test_a_failed_fit_gives_random_queries_and_a_warning(caplog):
    problem = problem_of(PLANE, (0.1, 1.0))
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        history = drive(problem, bowl, 6.0, policy=Screening(Broken()))
    assert "random queries instead" in caplog.text
    assert history.best is not None
    found, _ = Screening(Broken()).recommendation(SEED, history)
    assert found.unit == history.best.query.unit
    assert found.mean == history.best.value


def test_the_recommendation_was_evaluated_at_the_top_and_is_in_the_objectives_unit():
    for maximise in (False, True):
        sign = 1.0 if maximise else -1.0
        problem = problem_of(PLANE, (0.1, 1.0), maximise)
        history = drive(problem, lambda unit, level, sign=sign: 50.0 - sign * 100 * bowl(unit, level), 5.0)
        found, _ = bmbo.screening().recommendation(SEED, history)
        at_top = {trial.query.unit: trial.value for trial in history.done if trial.query.level == 1}
        assert found.mean == pytest.approx(at_top[found.unit], abs=2.0)
        assert history.best is not None
        assert found.mean == pytest.approx(history.best.value, abs=2.0)
        assert 0 < found.std < 20


def test_before_the_top_has_a_value_the_recommendation_is_any_point():
    history = told(History(problem_of(PLANE, (0.1, 1.0))), Query((0.5, 0.25), 0), 3.0)
    found, _ = bmbo.screening().recommendation(SEED, history)
    assert found.unit == (0.5, 0.25)
    assert found.mean == pytest.approx(3.0)


def test_the_start_has_fewer_points_where_levels_are_dear_or_trials_are_few():
    start = LadderStart()
    cheap, dear = start.sizes(7, (0.06, 0.25, 1.0), 40.0, None), start.sizes(7, (0.5, 0.7, 1.0), 40.0, None)
    assert cheap[0] > dear[0]
    assert cheap[0] > cheap[1] > cheap[2] == 1
    assert sum(start.sizes(7, (0.06, 0.25, 1.0), None, 20)) <= 10
    assert start.sizes(7, (0.06, 0.25, 1.0), None, None) == cheap
    assert start.sizes(3, (1.0,), 40.0, None) == [6]


def test_first_points_fill_the_space():
    points = space_filling(MIXED, 9, 0)
    assert (points[:, MIXED.blocks[2]].sum(0) > 0).all()
    assert np.array_equal(MIXED.snap(points), points)
    spread = space_filling(PLANE, 8, 0)
    assert np.array_equal(np.sort((8 * spread).astype(int), axis=0), np.repeat(np.arange(8)[:, None], 2, 1))
    assert np.array_equal(space_filling(PLANE, 8, 0), spread)
    assert not np.array_equal(space_filling(PLANE, 8, 1), spread)


def test_the_best_point_below_climbs_unless_it_was_asked_there():
    unit = np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]])
    seen = Observations(PLANE, 2, unit, np.zeros(3, int), np.array([1.0, np.nan, 2.0]))
    best = promoted(seen, set(), 1)
    assert best is not None
    assert np.array_equal(best, unit[2])
    taken = {(row.tobytes(), 1) for row in unit}
    assert promoted(seen, taken, 1) is None


@pytest.mark.slow
def test_a_thousand_outcomes():
    rng = np.random.default_rng(0)
    space = Space({name: bmbo.Float(0, 1) for name in "abcde"})
    history = History(problem_of(space, (0.1, 0.3, 1.0)))
    for unit, level in zip(rng.random((1000, 5)), rng.integers(0, 3, 1000), strict=True):
        query = Query(tuple(map(float, unit)), int(level))
        history = told(history, query, float(((unit - 0.4) ** 2).sum()))
    queries, _ = bmbo.screening().suggest(SEED, history, 5)
    assert len(queries) == 5
    assert min(sum((u - 0.4) ** 2 for u in query.unit) for query in queries) < 0.05


def test_it_explains_what_it_suggests():
    history = drive(problem_of(PLANE, (1.0, 10.0)), bowl, 120.0)
    start, late = History(history.problem, history.trials[:2]), History(history.problem, history.trials[:20])
    policy = bmbo.screening().within(400.0, None)
    assert isinstance(policy, Explaining)
    for known in (start, late):
        choices, _ = policy.explain(SEED, known, 4)
        assert [choice.query for choice in choices] == policy.suggest(SEED, known, 4)[0]
    for choice in policy.explain(SEED, late, 4)[0]:
        assert [offer.level for offer in choice.offers] == [1, 0]
        # In this budget, looks are not free: the highest rate is taken.
        best = max(choice.offers, key=lambda offer: offer.rate)
        assert (best.level, best.unit) == (choice.query.level, choice.query.unit)
        assert [offer.cost for offer in choice.offers] == [10.0, 11.0]
    assert all(not choice.offers for choice in policy.explain(SEED, start, 2)[0])
