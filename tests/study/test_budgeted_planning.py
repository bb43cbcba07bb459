"""A policy that knows its budget: the planner tells it the limits, and the whole budget ends in evaluations."""

from dataclasses import dataclass, replace

import pytest

import bmbo
from bmbo.history import History, Outcome
from bmbo.policies.random_search import random_queries
from bmbo.problem import Fidelity, Ladder, Problem, Space
from bmbo.study.limits import ADDED, Limits
from bmbo.study.next_queries import CONFIRMS, next_step

SEED = 0
SPACE = Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})
COSTS = (1.0, 4.0, 16.0)
PROBLEM = Problem(SPACE, Ladder([Fidelity(level, cost=cost) for level, cost in enumerate(COSTS)]))


def value_of(query):
    return sum((u - 0.3) ** 2 for u in query.unit) + 0.05 * (2 - query.level) * query.unit[0]


def run(num, **limits):
    """A whole run by the planner, and how it ended."""
    history, carry = History(PROBLEM), None
    while True:
        step = next_step(SEED, history, Limits(**limits), bmbo.screening(), num=num, busy=0, carry=carry)
        carry = step.carry
        if step.finished is not None:
            fresh = next_step(SEED, history, Limits(**limits), bmbo.screening(), num=num, busy=0)
            assert fresh.finished == step.finished
            return history, step.finished
        for query in step.queries:
            number = len(history.trials)
            history = history.asked(query).with_outcome(number, Outcome(value_of(query), COSTS[query.level]))


@pytest.mark.parametrize("num", [1, 4])
def test_all_of_a_budget_is_spent_and_the_last_trial_is_at_the_top(num):
    history, finished = run(num, total_cost=16.0 * 4)
    assert history.spent <= 16.0 * 4
    assert 16.0 * 4 - history.spent < 16.0
    assert "has been run at the top" in finished
    # Nothing was bought that could not lead to an evaluation at the top: the last query of all is there.
    assert history.trials[-1].query.level == 2
    assert not any(CONFIRMS in trial.query.tag for trial in history.trials)


def test_all_trials_are_used_and_the_last_one_is_at_the_top():
    history, _ = run(2, n_trials=10)
    assert len(history.trials) == 10
    assert history.trials[-1].query.level == 2
    assert sum(trial.query.level == 2 for trial in history.trials) >= 2


def test_the_last_batch_is_as_large_as_the_others_because_nothing_is_kept_for_a_confirmation():
    history, sizes = History(PROBLEM), []
    while (step := next_step(SEED, history, Limits(n_trials=9), bmbo.screening(), num=3, busy=0)).finished is None:
        sizes.append(len(step.queries))
        for query in step.queries:
            history = history.asked(query).with_outcome(
                len(history.trials), Outcome(value_of(query), COSTS[query.level])
            )
    assert sizes == [3, 3, 3]


@pytest.mark.parametrize("evaluated", [True, False])
def test_a_policy_says_itself_whether_its_recommendation_must_be_confirmed(evaluated):
    history = History(PROBLEM)
    step = next_step(SEED, history, Limits(n_trials=3), Confirming(evaluated), num=3, busy=0)
    assert len(step.queries) == (3 if evaluated else 2)


@pytest.mark.parametrize("total_cost", [16.0, 17.0, 21.0, 33.0])
def test_a_small_budget_still_ends_with_an_evaluation_at_the_top(total_cost):
    history, _ = run(3, total_cost=total_cost)
    assert history.spent <= total_cost
    assert total_cost - history.spent < 16.0
    assert any(trial.query.level == 2 for trial in history.trials)


@dataclass(frozen=True)
class Confirming:
    """A policy that says whether it recommends only what was evaluated at the top."""

    recommends_evaluated: bool

    def suggest(self, seed, history, num, carry=None):
        return random_queries(seed, history.problem, len(history.trials), [2] * num), carry

    def recommendation(self, seed, history, carry=None):
        raise AssertionError((seed, history, carry))


@dataclass(frozen=True)
class Listener:
    """A policy that writes the limits that it was told into its cache."""

    limits: tuple[float | None, int | None] | None = None

    def within(self, total_cost, n_trials):
        return replace(self, limits=(total_cost, n_trials))

    def suggest(self, seed, history, num, carry=None):
        del carry
        return random_queries(seed, history.problem, len(history.trials), [0] * num), self.limits


def test_the_planner_tells_a_policy_the_limits_of_the_whole_history():
    history = History(PROBLEM)
    for query in random_queries(SEED, PROBLEM, 0, [0, 0]):
        history = history.asked(replace(query, tag={ADDED: True}))
    for number in (0, 1):
        history = history.with_outcome(number, Outcome(1.0, 0.0))
    step = next_step(SEED, history, Limits(total_cost=50.0, n_trials=7), Listener(), num=1, busy=0)
    assert step.carry == (50.0, 9)  # trials that were run elsewhere count for no limit
    assert next_step(SEED, history, Limits(timeout=1.0), Listener(), num=1, busy=0).carry == (None, None)


def test_a_policy_that_knows_its_budget_is_not_asked_when_the_top_cannot_be_paid():
    step = next_step(SEED, History(PROBLEM), Limits(total_cost=15.0), Listener(), num=1, busy=0)
    assert step.queries == ()
    assert step.finished is not None
