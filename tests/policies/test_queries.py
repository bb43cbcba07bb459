"""Which queries a policy makes when: random ones at first and when a fit fails, improving ones in their share."""

import logging
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bmbo.history import History
from bmbo.policies.bayesian_optimisation import IMPROVES
from support.small_policies import (
    INFORMED,
    KEY,
    PROBLEM,
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
    queries, _ = SMALL.suggest(KEY, History(PROBLEM), 3)
    assert [query.level for query in queries] == [0, 0, 1]
    rest, _ = SMALL.suggest(KEY, asked(History(PROBLEM), *queries), 3)
    assert [query.level for query in rest] == [1]


def test_while_nothing_is_known_and_all_is_in_flight_the_policy_waits():
    assert SMALL.suggest(KEY, started(), 2)[0] == []


def test_when_every_trial_failed_random_queries_come():
    history = started()
    for number in range(4):
        history = failed(history, number)
    queries, _ = SMALL.suggest(KEY, history, 2)
    assert valid(queries)
    assert len(queries) == 2
    assert {query.unit for query in queries}.isdisjoint(trial.query.unit for trial in history.trials)


def test_a_fit_that_is_not_finite_gives_random_queries_and_a_warning(caplog):
    policy = replace(SMALL, surrogate=Fake([], scale=math.nan))
    history = started()
    for number in range(4):
        history = told(history, number)
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        queries, _ = policy.suggest(KEY, history, 2)
    assert valid(queries)
    assert len(queries) == 2
    assert "not finite" in caplog.text


@dataclass(frozen=True)
class Failing:
    """A surrogate whose numbers fail."""

    error: Exception

    def fit(self, *_):
        raise self.error


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("not positive definite"), RuntimeError("out of memory")])
def test_a_fit_that_fails_leaves_random_queries_and_says_so(error, caplog):
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        rounds = run(replace(SMALL, surrogate=Failing(error)), 4)
    assert all(len(queries) == 2 and valid(queries) for _, queries in rounds)
    assert str(error) in caplog.text


def test_the_wanted_share_of_queries_at_the_top_goes_where_improvement_is_expected(monkeypatch):
    monkeypatch.setattr(
        "bmbo.policies.bayesian_optimisation.most_improving", lambda *_, **__: SPACE.encode({"x": 0.25, "n": 5})
    )
    policy = replace(SMALL, surrogate=Fake([]), select=Noted([]), improve=0.5)
    tagged = [IMPROVES in query.tag for _, queries in run(policy, 8)[2:] for query in queries]
    assert tagged == [False, True] * 6
    single = [IMPROVES in query.tag for _, queries in run(policy, 10, num=1)[4:] for query in queries]
    assert single == [False, True] * 3
    without = run(replace(policy, improve=0.0), 6)
    assert not any(query.tag for _, queries in without for query in queries)


def test_queries_below_the_top_are_never_replaced_by_improving_ones():
    policy = replace(SMALL, surrogate=Fake([]), select=Noted([], level=0))
    assert all(query.level == 0 and not query.tag for _, queries in run(policy, 5)[2:] for query in queries)


@pytest.mark.parametrize(
    ("num_told", "anchor"), [(1, 1), (7, 7), (8, 8), (11, 8), (12, 12), (17, 12), (18, 18), (27, 27), (39, 27)]
)
def test_anchors_are_fixed_numbers_of_outcomes(num_told, anchor):
    assert SMALL._anchor(num_told) == anchor
    assert replace(SMALL, anchor_growth=None)._anchor(num_told) == num_told


def test_with_the_carry_each_round_takes_one_fit_from_the_chains_of_its_anchor():
    fits = []
    run(replace(INFORMED, surrogate=Fake(fits), select=Noted([])), 9)
    # 4 random ones; 4 and 6 come before the first anchor; 8, 12 and 16 (12) begin or follow one.
    assert fits == [(4, None), (6, None), (8, None), (10, 8), (12, None), (14, 12), (16, 12)]


@pytest.mark.parametrize("fields", [{"num_startup": 0}, {"anchor_growth": 1.0}, {"improve": 1.5}])
def test_settings_that_make_no_sense_are_named(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        replace(SMALL, **fields)
