"""Check which queries a policy makes when: random ones at first and when a fit fails, improving ones at the top."""

import logging
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bmbo.acquisition.expected_improvement import IMPROVES, ImproveAtTop
from bmbo.history import History
from bmbo.policies import WarmStart
from bmbo.policies.first_queries import RandomStart
from support.small_policies import (
    PROBLEM,
    QUICK,
    SEED,
    SMALL,
    SPACE,
    Fake,
    Noted,
    asked,
    failed,
    run,
    started,
    told,
    valid,
)


def test_random_queries_come_first_the_cheapest_level_first_and_once_each():
    queries, _ = SMALL.suggest(SEED, History(PROBLEM), 3)
    assert [query.level for query in queries] == [0, 0, 1]
    rest, _ = SMALL.suggest(SEED, asked(History(PROBLEM), *queries), 3)
    assert [query.level for query in rest] == [1]


def test_while_nothing_is_known_and_all_is_in_flight_the_policy_waits():
    assert SMALL.suggest(SEED, started(), 2)[0] == []


def test_when_every_trial_failed_random_queries_come():
    history = started()
    for number in range(4):
        history = failed(history, number)
    queries, _ = SMALL.suggest(SEED, history, 2)
    assert valid(queries)
    assert len(queries) == 2
    assert {query.unit for query in queries}.isdisjoint(trial.query.unit for trial in history.trials)


def test_a_fit_that_is_not_finite_gives_random_queries_and_a_warning(caplog):
    policy = replace(SMALL, learner=WarmStart(Fake([], scale=math.nan)))
    history = started()
    for number in range(4):
        history = told(history, number)
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        queries, _ = policy.suggest(SEED, history, 2)
    assert valid(queries)
    assert len(queries) == 2
    assert "not finite" in caplog.text


@dataclass(frozen=True)
class Failing:
    """A surrogate whose numbers fail."""

    error: Exception

    def fit(self, *_, **__):
        raise self.error


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("not positive definite"), RuntimeError("out of memory")])
def test_a_fit_that_fails_leaves_random_queries_and_says_so(error, caplog):
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        rounds = run(replace(SMALL, learner=WarmStart(Failing(error))), 4)
    assert all(len(queries) == 2 and valid(queries) for _, queries in rounds)
    assert str(error) in caplog.text


def test_queries_at_the_top_go_where_improvement_is_expected(monkeypatch):
    unit = SPACE.encode({"x": 0.25, "n": 5})
    monkeypatch.setattr("bmbo.acquisition.expected_improvement.most_improving", lambda *_, **__: unit)
    policy = replace(QUICK, select=ImproveAtTop(Noted([])))
    improving = [query for _, queries in run(policy, 5)[2:] for query in queries]
    assert all(query.unit == unit and query.level == 1 and IMPROVES in query.tag for query in improving)
    without = [query for _, queries in run(QUICK, 5)[2:] for query in queries]
    assert not any(query.tag for query in without)


def test_queries_below_the_top_are_never_replaced_by_improving_ones():
    policy = replace(QUICK, select=ImproveAtTop(Noted([], level=0)))
    assert all(query.level == 0 and not query.tag for _, queries in run(policy, 5)[2:] for query in queries)


def test_without_a_value_at_the_top_the_batch_stays_as_it_is():
    history = started()
    for number in (0, 1):
        history = told(history, number)
    for number in (2, 3):
        history = failed(history, number)
    policy = replace(QUICK, select=ImproveAtTop(Noted([])))
    queries, _ = policy.suggest(SEED, history, 2)
    assert len(queries) == 2
    assert not any(query.tag for query in queries)


@pytest.mark.parametrize(
    ("num_told", "anchor"), [(1, 1), (7, 7), (8, 8), (11, 8), (12, 12), (17, 12), (18, 18), (27, 27), (39, 27)]
)
def test_anchors_are_fixed_numbers_of_outcomes(num_told, anchor):
    assert WarmStart(Fake([])).anchor(num_told) == anchor
    assert WarmStart(Fake([]), growth=None).anchor(num_told) == num_told


def test_with_the_carry_each_round_takes_one_fit_from_the_chains_of_its_anchor():
    fits = []
    run(replace(QUICK, learner=WarmStart(Fake(fits))), 9)
    # 4 random ones; 4 and 6 come before the first anchor; 8, 12 and 16 (12) begin or follow one.
    assert fits == [(4, None), (6, None), (8, None), (10, 8), (12, None), (14, 12), (16, 12)]


def test_settings_that_make_no_sense_are_named():
    with pytest.raises(ValueError, match="num_startup must be at least 1, got 0"):
        RandomStart(0)
    with pytest.raises(ValueError, match="growth must be above 1, or None"):
        WarmStart(Fake([]), growth=1.0)
