"""Doubt enlarges deviations alone, all by one factor, and falls to none at the end of a budget."""

import numpy as np
import pytest

from bmbo import History, Outcome, Query
from bmbo.acquisition.early_doubt import Doubted, EarlyDoubt
from bmbo.history.host_observations import Observations
from bmbo.policies import Screening
from bmbo.protocols import ExactPosterior, WeightedPosteriors
from bmbo.surrogates.exact_gp import JointGP
from bmbo.synthetic import branin

LEVELS = (0,) * 8 + (1,) * 3 + (2,) * 3
"""As many as the start has at most."""


def history():
    """Return random points of Branin."""
    problem, rng = branin().problem, np.random.default_rng(0)
    found = History(problem)
    for number, level in enumerate(LEVELS):
        unit = tuple(float(u) for u in rng.random(2))
        value = branin()(problem.space.decode(unit), level)
        found = found.asked(Query(unit, level))
        found = found.with_outcome(number, Outcome.of(value, problem.ladder.costs[level]))
    return found


@pytest.fixture(scope="module")
def learned() -> WeightedPosteriors:
    return JointGP().fit(Observations.of(history()))[0]


def test_the_factor_falls_to_one_in_the_last_part_of_the_budget():
    doubt = EarlyDoubt(factor=2.0, until=0.5)
    assert [doubt.factor_at(left) for left in (1.0, 0.5, 0.25, 0.0, -0.1)] == [2.0, 2.0, 1.5, 1.0, 1.0]


def test_deviations_grow_and_means_stay(learned):
    points = np.random.default_rng(1).random((5, 2))
    doubted = EarlyDoubt(factor=2.0).doubted(learned, 1.0)
    for part, wide in zip(learned.parts, doubted.parts, strict=True):
        assert isinstance(wide, ExactPosterior)
        assert wide.moments(points, 2)[0] == pytest.approx(part.moments(points, 2)[0])
        assert wide.moments(points, 2)[1] == pytest.approx(4.0 * part.moments(points, 2)[1])
        assert wide.covariance(points, 2, points, 0) == pytest.approx(4.0 * part.covariance(points, 2, points, 0))
        assert wide.noise == pytest.approx(4.0 * part.noise)


def test_an_imagined_outcome_lies_as_far_off_as_the_deviation_says(learned):
    part, point, points = learned.parts[0], np.array([0.3, 0.7]), np.random.default_rng(1).random((5, 2))
    one, wide = part.imagined(point, 1, np.array([2.0])), Doubted(part, 2.0).imagined(point, 1, np.array([1.0]))
    assert wide.moments(points, 2)[0] == pytest.approx(one.moments(points, 2)[0])
    assert wide.moments(points, 2)[1] == pytest.approx(4.0 * one.moments(points, 2)[1])


def test_without_doubt_posteriors_are_what_they_were(learned):
    assert EarlyDoubt().doubted(learned, 0.0) is learned
    assert EarlyDoubt(factor=1.0).doubted(learned, 1.0) is learned


@pytest.mark.parametrize("settings", [{"factor": 0.5}, {"factor": float("nan")}, {"until": 0.0}, {"until": 2.0}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValueError, match="must be"):
        EarlyDoubt(**settings)


def offered(total_cost, n_trials=None):
    """Return the gain that an evaluation at the top promises under a budget."""
    policy = Screening(JointGP()).within(total_cost, n_trials)
    return policy.explain(0, history(), 1)[0][0].offers[0].gain


def test_doubt_depends_on_what_is_left_of_the_budget():
    spent = history().spent
    assert offered(spent + 51.0) < offered(10.0 * spent) == offered(20.0 * spent)


def test_trials_count_as_a_budget_too():
    assert offered(None, len(LEVELS) + 1) < offered(None, 1000)


def test_a_run_without_limits_is_doubted_at_first():
    assert offered(None) == offered(10.0 * history().spent)
