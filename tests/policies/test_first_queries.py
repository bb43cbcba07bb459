"""Check how our own methods begin and end: the start climbs the ladder, and the budget ends in evaluations."""

import numpy as np
import pytest

import bmbo
from bmbo import methods
from bmbo.history import History, Outcome, Query
from bmbo.policies import Bayes, OnDevice, WarmStart
from bmbo.policies.first_queries import ClimbingStart, RandomStart, Start
from bmbo.policies.remaining_budget import Remaining, RunLimits
from bmbo.problem import Fidelity, Ladder, Problem, Space
from bmbo.protocols import Budgeted
from bmbo.study.limits import Limits
from bmbo.study.next_queries import next_step
from support.small_policies import Fake, Noted

SEED = 0
COSTS = (1.0, 4.0, 16.0)
SPACE = Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})
PROBLEM = Problem(SPACE, Ladder([Fidelity(level, cost=cost) for level, cost in enumerate(COSTS)]))
CHEAP = Bayes(WarmStart(Fake([])), Noted([], level=0), ClimbingStart())

NO_LIMITS = RunLimits()


def outcome_of(query):
    return Outcome(sum((u - 0.3) ** 2 for u in query.unit) + 0.1 * query.level, COSTS[query.level])


def told(history, queries):
    for query in queries:
        history = history.asked(query).with_outcome(len(history.trials), outcome_of(query))
    return history


def begun(num, limits=NO_LIMITS):
    """The history after the start, in batches."""
    history = History(PROBLEM)
    while queries := ClimbingStart().queries(SEED, history, num, limits):
        history = told(history, queries)
    return history


@pytest.mark.parametrize("num", [1, 5])
def test_the_start_has_the_sizes_of_its_plan_and_ends(num):
    history, start = begun(num), ClimbingStart()
    levels = [trial.query.level for trial in history.trials]
    assert [levels.count(level) for level in range(3)] == start.plan.sizes(2, COSTS, None, None)
    assert isinstance(start, Start)
    # What climbs was evaluated below. One at a time, it is the best of that level.
    above = next(trial.query.unit for trial in history.trials if trial.query.level == 2)
    below = {trial.query.unit: trial.value or 0.0 for trial in history.trials if trial.query.level == 1}
    assert above in below
    assert num > 1 or below[above] == min(below.values())


def test_a_small_budget_has_a_small_start():
    assert len(begun(1, RunLimits(total_cost=48.0)).trials) < len(begun(1).trials)


def test_the_start_buys_nothing_below_the_top_that_no_evaluation_could_follow():
    assert begun(5, RunLimits(total_cost=16.0)).trials == ()
    assert begun(5, RunLimits(total_cost=17.5)).spent <= 1.5


def test_the_start_waits_for_outcomes_before_anything_climbs():
    history = History(PROBLEM)
    asked = 0
    while queries := ClimbingStart().queries(SEED, history, 3, RunLimits()):
        asked += len(queries)
        for query in queries:
            history = history.asked(query)
    assert asked == ClimbingStart().plan.sizes(2, COSTS, None, None)[0]


def whole_run(policy, limits, num):
    history, carry = History(PROBLEM), None
    while True:
        step = next_step(SEED, history, limits, policy, num=num, busy=0, carry=carry)
        carry = step.carry
        if step.finished is not None:
            return history
        history = told(history, step.queries)


@pytest.mark.parametrize(("num", "total_cost"), [(1, 40.0), (3, 60.0)])
def test_a_run_whose_model_prefers_the_cheap_level_still_ends_at_the_top(num, total_cost, monkeypatch):
    # The searches of the last evaluations compile for seconds; what they find does not matter here.
    monkeypatch.setattr("bmbo.acquisition.expected_improvement.most_improving", lambda *_, **__: (0.1, 0.2))
    monkeypatch.setattr("bmbo.policies.bayesian_optimisation.recommend", recommended)
    history = whole_run(CHEAP, Limits(total_cost=total_cost), num)
    assert history.trials[-1].query.level == 2
    assert history.spent <= total_cost
    # What is left does not pay for an evaluation, and nothing cheap was bought with it.
    assert total_cost - history.spent < 16.0


def recommended(key, posterior, problem, scale, known):
    del key, posterior, problem, scale, known
    return bmbo.protocols.Recommendation((0.4, 0.6), 0.0, 1.0)


def test_queries_at_the_top_are_paid_first_and_cheap_ones_only_if_an_evaluation_can_follow():
    low, top = Query((0.1, 0.1), 0), Query((0.2, 0.2), 2)
    assert Remaining(COSTS, 33.0, np.inf).allowed([low, top, low]) == [low, top]
    assert Remaining(COSTS, 32.0, np.inf).allowed([low, top, low]) == [top]
    assert Remaining(COSTS, np.inf, 3.0).allowed([low, top, low]) == [low, top]
    assert Remaining(COSTS, 15.0, np.inf).allowed([low, top]) == []
    assert Remaining(COSTS, np.inf, np.inf).allowed([low, top, low]) == [low, top, low]


def test_what_is_in_flight_is_paid():
    history = History(PROBLEM).asked(Query((0.1, 0.1), 2))
    assert RunLimits(total_cost=20.0, n_trials=5).remaining(history) == Remaining(COSTS, 4.0, 4.0)


def bayes_of(method):
    """The policy inside the one that chooses a device."""
    assert isinstance(method, OnDevice)
    assert isinstance(method.policy, Bayes)
    return method.policy


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("name", ["bmbo_darn", "bmbo_darn_1", "bmbo_gp", "bmbo_mixture"])
def test_our_methods_climb_and_know_the_budget_unless_random_queries_are_wanted(name):
    method = getattr(methods, name)()
    assert isinstance(method, Budgeted)
    assert isinstance(bayes_of(method).start, ClimbingStart)
    assert bayes_of(method.within(40.0, None)).limits == RunLimits(40.0, None)
    assert bayes_of(getattr(methods, name)(num_startup=3)).start == RandomStart(3)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("preset", ["paper", "paper_adapted"])
def test_the_presets_of_the_paper_begin_at_random_and_know_no_budget(preset):
    method = methods.bmbo_darn(preset)
    assert not isinstance(method, Budgeted)
    assert bayes_of(method).start == RandomStart(10)
