"""What to run next: within every limit, once, and with the recommendation last."""

import math
from dataclasses import dataclass, replace

import pytest

from bmbo.history import History, Outcome, Query
from bmbo.policies import Random
from bmbo.policies.random_search import random_queries
from bmbo.problem import Fidelity, Ladder, Problem
from bmbo.study.limits import ADDED, Limits, affordable
from bmbo.study.next_queries import CONFIRMS, Step, next_step
from support.small_policies import PROBLEM, QUICK, SPACE

SEED = 0


@dataclass(frozen=True)
class At:
    """Random queries at one level."""

    level: int

    def suggest(self, seed, history, num, carry=None):
        return random_queries(seed, history.problem, len(history.trials), [self.level] * num), carry


@dataclass(frozen=True)
class Silent:
    """A policy that waits."""

    def suggest(self, seed, history, num, carry=None):
        del seed, history, num
        return [], carry


def step_of(history, policy, num=3, busy=0, **limits):
    return next_step(SEED, history, Limits(**limits), policy, num=num, busy=busy)


def told(history, value=1.0):
    """The history with all that is in flight finished."""
    for trial in history.pending:
        cost = history.priced.ladder.costs[trial.query.level]
        history = history.with_outcome(trial.number, Outcome(value, cost, seconds=cost))
    return history


def asked(history, *queries):
    for query in queries:
        history = history.asked(query)
    return history


def run(policy, num, problem=PROBLEM, **limits):
    """All steps to the end, and the history."""
    history, steps = History(problem), []
    while not steps or steps[-1].finished is None:
        steps.append(step_of(history, policy, num, **limits))
        history = told(asked(history, *steps[-1].queries))
        assert len(steps) < 100
    return steps, history


EMPTY = History(PROBLEM)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ((None, None, None), "give at least one of total_cost, n_trials and timeout"),
        ((0, None, None), "total_cost must be positive, got 0"),
        ((math.nan, None, None), "total_cost must be positive, got nan"),
        (("10", None, None), "total_cost must be a number, got '10'"),
        ((None, 2.5, None), "n_trials must be a whole number of at least 1, got 2.5"),
        ((None, True, None), "n_trials must be a whole number of at least 1, got True"),
        ((None, -1, None), "n_trials must be a whole number of at least 1, got -1"),
        ((None, None, -1.0), "timeout must be positive, got -1.0"),
    ],
)
def test_limits_that_are_none_are_refused_in_one_sentence(limits, sentence):
    with pytest.raises(ValueError, match=sentence):
        Limits.checked(*limits)


def test_a_run_may_be_endless_only_when_that_is_said():
    assert Limits.checked(None, None, math.inf).timeout == math.inf


@pytest.mark.parametrize("total", [11.0, 13.0, 25.5, 64.0])
@pytest.mark.parametrize("num", [1, 3])
@pytest.mark.parametrize("policy", [At(0), At(1), QUICK], ids=["low", "top", "bayes"])
def test_a_budget_is_used_and_never_exceeded(total, num, policy):
    _, history = run(policy, num, total_cost=total)
    assert total - 10.0 <= history.spent <= total


def test_what_is_in_flight_is_paid_for_already():
    history = asked(EMPTY, Query((0.5, 0.5), 1), Query((0.5, 0.5), 0))
    assert Limits(total_cost=20.0).left(history) == 9.0
    assert len(step_of(history, At(0), total_cost=13.0, num=5, busy=2).queries) == 2
    assert step_of(history, At(1), total_cost=20.0, busy=2) == Step()


def test_of_a_batch_what_the_budget_pays_for_is_kept_in_order():
    queries = [Query((0.0, 0.5), 1), Query((0.1, 0.5), 0), Query((0.2, 0.5), 1), Query((0.3, 0.5), 0)]

    def cost_of(query):
        return (1.0, 10.0)[query.level]

    assert affordable(queries, cost_of, 12.0) == [queries[0], queries[1], queries[3]]
    assert affordable(queries, cost_of, 0.5) == []


def test_of_what_waits_only_what_the_budget_pays_for_may_start():
    history = told(asked(EMPTY, Query((0.1, 0.5), 1)))
    history = asked(history, Query((0.2, 0.5), 1), Query((0.3, 0.5), 0), Query((0.4, 0.5), 0))
    numbers = {
        total: [trial.number for trial in Limits(total_cost=total).startable(history, history.pending)]
        for total in (10.5, 11.0, 12.0, 20.0, 22.0)
    }
    assert numbers == {10.5: [], 11.0: [2], 12.0: [2, 3], 20.0: [1], 22.0: [1, 2, 3]}
    assert Limits(n_trials=1).startable(history, history.pending) == list(history.pending)


def test_trials_that_were_added_count_for_no_limit_on_trials():
    history = told(asked(EMPTY, Query((0.1, 0.5), 1, {ADDED: True}), Query((0.2, 0.5), 1)))
    assert Limits(n_trials=3).room(history) == 2
    assert len(step_of(history, Random(), n_trials=3).queries) == 2


def test_without_a_surrogate_every_trial_goes_to_the_search():
    steps, history = run(Random(), 2, n_trials=5)
    assert [len(step.queries) for step in steps] == [2, 2, 1, 0]
    assert steps[-1].finished == "5 trials for a cost of 50"
    assert not any(CONFIRMS in trial.query.tag for trial in history.trials)


@pytest.mark.parametrize("limits", [{"n_trials": 9}, {"total_cost": 64.0}, {"n_trials": 9, "total_cost": 1e6}], ids=str)
def test_the_recommendation_is_run_last_and_once(limits):
    steps, history = run(QUICK, 2, **limits)
    assert [CONFIRMS in trial.query.tag for trial in history.trials] == [False] * (len(history.trials) - 1) + [True]
    assert steps[-2].queries == (history.trials[-1].query,)
    assert f"trial {history.trials[-1].number} confirmed the recommendation and gave 1" in (steps[-1].finished or "")
    # The same limits again: nothing more. Larger ones: the search goes on and confirms again.
    assert step_of(history, QUICK, **limits).finished is not None
    more = {name: 2 * limit for name, limit in limits.items()}
    assert step_of(history, QUICK, **more).queries
    assert CONFIRMS not in step_of(history, QUICK, **more).queries[0].tag


def test_a_confirmation_that_failed_is_not_repeated():
    steps, history = run(QUICK, 2, n_trials=9)
    trials = list(history.trials)
    trials[-1] = replace(trials[-1], outcome=Outcome(None, 10.0, error="it broke"))
    failed = replace(history, trials=tuple(trials))
    assert "confirmed the recommendation and failed" in (step_of(failed, QUICK, n_trials=9).finished or "")
    assert steps


def test_a_recommendation_that_has_been_run_is_named_and_not_run_again(monkeypatch):
    _, history = run(QUICK, 2, n_trials=9)
    before = replace(history, trials=history.trials[:-1])
    known = next(trial for trial in before.trials if trial.query.level == 1)
    found, _ = QUICK.recommendation(SEED, before)
    monkeypatch.setattr(type(QUICK), "recommendation", lambda *_: (replace(found, unit=known.query.unit), None))
    # What was kept for the confirmation goes to the search.
    step = step_of(before, QUICK, n_trials=9)
    assert len(step.queries) == 1
    assert CONFIRMS not in step.queries[0].tag
    after = told(asked(before, *step.queries))
    assert f"has been run at the top, as trial {known.number}" in (step_of(after, QUICK, n_trials=9).finished or "")


def test_what_is_kept_for_a_confirmation_buys_nothing_that_cannot_lead_to_the_top(monkeypatch):
    _, history = run(QUICK, 2, total_cost=64.0)
    before = replace(history, trials=history.trials[:-1])
    known = next(trial for trial in before.trials if trial.query.level == 1)
    found, _ = QUICK.recommendation(SEED, before)
    monkeypatch.setattr(type(QUICK), "recommendation", lambda *_: (replace(found, unit=known.query.unit), None))
    spent = before.spent
    assert step_of(before, At(0), total_cost=spent + 9.0).queries
    assert step_of(before, QUICK, total_cost=spent + 9.0).finished is not None
    assert step_of(before, QUICK, total_cost=spent + 10.0).queries


def test_the_recommendation_waits_for_what_is_under_way():
    _, history = run(QUICK, 2, n_trials=9)
    before = replace(history, trials=history.trials[:-1])
    assert step_of(before, QUICK, busy=1, n_trials=9).queries == ()
    assert step_of(before, QUICK, busy=1, n_trials=9).finished is None


def test_a_limit_too_small_for_a_confirmation_is_used_for_the_search():
    _, history = run(QUICK, 1, n_trials=1)
    assert len(history.trials) == 1
    single = Problem(SPACE, Ladder([Fidelity("full", cost=1)]))
    _, history = run(QUICK, 1, problem=single, total_cost=1.0)
    assert len(history.trials) == 1


def test_when_every_trial_failed_there_is_nothing_to_confirm():
    history = EMPTY
    for number in range(4):
        history = history.asked(Query((0.1, 0.5), 0)).with_outcome(number, Outcome(None, 1.0, error="it broke"))
    assert len(step_of(history, QUICK, n_trials=5).queries) == 1
    assert step_of(history, QUICK, n_trials=4).finished == "4 trials for a cost of 4; no trial gave a value"


def test_a_policy_that_waits_is_waited_for_and_one_that_never_speaks_ends_the_run():
    history = asked(EMPTY, Query((0.5, 0.5), 1))
    assert step_of(history, Silent(), busy=1, n_trials=5) == Step()
    assert step_of(told(history), Silent(), n_trials=5).finished is not None


def test_measured_costs_are_foreseen_from_what_is_known():
    problem = Problem(SPACE, Ladder([Fidelity(1, cost="measure"), Fidelity(10, cost="measure")]))
    history = History(problem).asked(Query((0.5, 0.5), 0)).with_outcome(0, Outcome(1.0, 2.0, seconds=2.0))
    assert Limits(total_cost=30.0).left(history) == 28.0
    assert len(step_of(history, At(1), total_cost=30.0).queries) == 1
    assert len(step_of(history, At(1), total_cost=43.0).queries) == 2


def test_the_step_is_a_function_of_what_is_known():
    steps, history = run(QUICK, 2, n_trials=9)
    for place, step in enumerate(steps):
        num_before = sum(len(earlier.queries) for earlier in steps[:place])
        before = replace(history, trials=history.trials[:num_before])
        again = step_of(before, QUICK, 2, n_trials=9)
        assert (again.queries, again.finished) == (step.queries, step.finished)
