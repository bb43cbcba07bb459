"""A belief guides the search, fades, and is left out where outcomes contradict it."""

import numpy as np
import pytest

from bmbo.acquisition.fading_prior import FadingPrior, trust
from bmbo.history.host_observations import Observations
from bmbo.problem import Float, Likely, Space

SPACE = Space({"x": Float(0, 1, prior=Likely(0.2, width=0.15)), "y": Float(0, 1)})
POINTS = np.random.default_rng(0).random((12, 2))


def observed(values, levels=None, points=POINTS, space=SPACE):
    levels = np.zeros(len(points), np.intp) if levels is None else levels
    return Observations(space, 1 + int(levels.max()), points, levels, np.asarray(values, np.float64))


def believed():
    assert SPACE.likely is not None
    return SPACE.likely.log_density(POINTS)


def test_outcomes_that_agree_leave_a_belief_standing_and_others_do_not():
    assert trust(believed(), observed(-np.abs(POINTS[:, 0] - 0.2))) == 1.0
    assert trust(believed(), observed(-np.abs(POINTS[:, 0] - 1.0))) < 0.01
    assert trust(believed(), observed(POINTS[:, 1])) > 0.05
    assert trust(believed()[:3], observed(POINTS[:3, 0], points=POINTS[:3])) == 1.0  # too few to say
    assert trust(believed(), observed(np.full(12, np.nan))) == 1.0


def test_levels_are_compared_each_by_itself():
    levels = np.repeat([0, 1], 6)
    agreeing = -np.abs(POINTS[:, 0] - 0.2) + 100.0 * (1 - levels)
    assert trust(believed(), observed(agreeing, levels)) == 1.0


def test_a_belief_fades_with_the_evaluations_at_the_top():
    few, many = (observed(-np.abs(POINTS[:num, 0] - 0.2), points=POINTS[:num]) for num in (2, 10))
    at = np.array([[0.8, 0.5]])
    weighs = [FadingPrior().weigh(each) for each in (few, many)]
    early, late = (weigh(at)[0] for weigh in weighs if weigh is not None)
    assert early == pytest.approx(5 * late)
    assert early < late < 0


def test_nothing_is_weighted_without_a_belief_or_against_the_data():
    plain = Space({"x": Float(0, 1), "y": Float(0, 1)})
    assert FadingPrior().weigh(observed(POINTS[:, 0], space=plain)) is None
    against = observed(10 * np.abs(POINTS[:, 0] - 0.2))
    assert FadingPrior().weigh(against) is None
    assert FadingPrior(doubts=False).weigh(against) is not None
