"""Running a configuration again: what an evaluation can move under noise, and what another run of it earns."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from bmbo.acquisition.look_or_evaluate import Belief, evaluate_now, look_first
from bmbo.acquisition.run_again import offer_to_run_again, rise_of_the_best
from bmbo.history.host_observations import Observations
from bmbo.problem import Float, Space
from bmbo.protocols import WeightedPosteriors
from bmbo.surrogates.conditioned_process import ConditionedProcess
from bmbo.surrogates.exact_gp.joint_process import JointProcess
from bmbo.surrogates.exact_gp.prior_and_evidence import Hyperparameters, Prior

LINE = Space({"x": Float(0, 1)})
NOISE = 0.2


def belief_of(points, values, *, noise=NOISE, noisy=True):
    """A process with a known noise, whose points far apart say nothing about each other."""
    hyper = Hyperparameters("gaussian", np.log([0.02]), np.zeros(1), np.eye(1), np.array([noise]))
    unit = np.array(points, np.float64)[:, None]
    data = Observations(LINE, 1, unit, np.zeros(len(unit), np.intp), np.array(values, np.float64))
    part = ConditionedProcess.of(JointProcess(LINE, hyper, Prior(shift=0.0, level_shift=0.0)), data)
    return Belief.of(WeightedPosteriors((part,), np.ones(1), lambda value: value), 0, noisy=noisy)


def test_under_noise_an_evaluation_counts_as_far_as_it_parts_a_point_from_the_best():
    belief = belief_of([0.1, 0.5, 0.9], [1.0, 0.5, 0.0])
    part, best = belief.posteriors.parts[0], np.array([[0.1]])
    points = np.array([[0.11], [0.3], [0.5]])
    _, variance = part.moments(points, 0)
    apart = belief.deviations(0, points, variance)
    for place, point in enumerate(points):
        after = part.imagined(point, 0, np.array([-1.0, 1.0]))
        moved = np.diff(after.moments(point[None], 0)[0][0] - after.moments(best, 0)[0][0])[0] / 2
        assert apart[place] == pytest.approx(moved)
    assert apart[0] < 0.5 * apart[1]  # the neighbour of the best moves with it
    assert replace(belief, noisy=False).deviations(0, points, variance) == pytest.approx(np.sqrt(variance))


def test_a_run_earns_what_the_better_of_two_rises_by():
    belief = belief_of([0.1, 0.5, 0.9], [1.0, 0.9, -1.0])
    part, known = belief.posteriors.parts[0], np.array([[0.1], [0.5], [0.9]])
    mean, variance = part.moments(known, 0)
    moves = variance / np.sqrt(variance + NOISE)
    rises = rise_of_the_best(belief, known)
    for place, rival in ((0, 1), (1, 0), (2, 0)):

        def better(y, place=place, rival=rival):
            return max(y, mean[rival, 0]) * norm.pdf(y, mean[place, 0], moves[place])

        assert rises[place] == pytest.approx(quad(better, -8, 8, limit=200)[0] - mean.max(), abs=1e-5)
    assert rises[2] < 0.01 * rises[0]


def test_a_look_is_worth_what_it_parts_points_from_the_best():
    """Beside the best point, a look tells nothing; elsewhere, it is worth what many imagined outcomes are worth."""
    belief = belief_of([0.1, 0.5, 0.9], [1.0, 0.5, 0.0])
    part, points = belief.posteriors.parts[0], np.array([[0.1], [0.3], [0.5], [0.7]])
    asked = points[1:2]
    outcomes = norm.ppf((np.arange(200) + 0.5) / 200)
    answer = belief.answers
    total = 0.0
    for outcome in outcomes:
        after = part.imagined(asked[0], 0, np.array([outcome]))
        posteriors = replace(belief.posteriors, parts=(after,))
        best = after.moments(answer[0], 0)[0][0]
        total += evaluate_now(replace(belief, posteriors=posteriors, bests=(best,)), points).max() / 200
    assert look_first(belief, points, asked, 0)[0] == pytest.approx(total, rel=0.05)


def test_a_best_that_is_far_ahead_or_known_well_is_not_worth_a_run():
    near = offer_to_run_again(belief_of([0.1, 0.5], [1.0, 0.9]), 1.0)
    far = offer_to_run_again(belief_of([0.1, 0.5], [4.0, -4.0]), 1.0)
    known = offer_to_run_again(belief_of([0.1] * 30 + [0.5] * 30, [1.0] * 30 + [0.9] * 30), 1.0)
    exact = offer_to_run_again(belief_of([0.1, 0.5], [1.0, 0.9], noise=1e-8), 1.0)
    assert near is not None
    assert far is not None
    assert known is not None
    assert exact is not None
    assert far.gain < 1e-3 * near.gain
    assert known.gain < 0.3 * near.gain
    assert exact.gain < 1e-6 * near.gain


def test_the_one_that_was_run_less_is_run_again():
    offer = offer_to_run_again(belief_of([0.1] * 12 + [0.5], [1.0] * 12 + [1.05]), 3.0)
    assert offer is not None
    assert (offer.unit, offer.level, offer.cost) == ((0.5,), 0, 3.0)


def test_nothing_can_be_run_again_before_anything_was_run_at_the_top():
    belief = belief_of([0.1], [1.0])
    assert offer_to_run_again(replace(belief, top=1), 1.0) is None
