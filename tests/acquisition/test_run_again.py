"""Running a configuration again: what an evaluation can move under noise, and what another run of it earns."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from bmbo.acquisition.look_or_evaluate import Belief
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


def test_under_noise_an_evaluation_moves_the_mean_by_the_deviation_and_without_it_tells_the_value():
    belief = belief_of([0.1, 0.5, 0.9], [1.0, 0.5, 0.0])
    part, at = belief.posteriors.parts[0], np.array([[0.5]])
    mean, variance = part.moments(at, 0)
    after, left = part.imagined(at[0], 0, np.array([-1.0, 1.0])).moments(at, 0)
    moved = float(belief.deviation(part, variance)[0])
    assert after[0] == pytest.approx([mean[0, 0] - moved, mean[0, 0] + moved])
    # What is known before is what the mean still moves by, and what is left.
    assert variance[0] == pytest.approx(moved**2 + left[0])
    plain = replace(belief, noisy=False)
    assert plain.deviation(part, variance) == pytest.approx(np.sqrt(variance))


def test_the_best_earns_what_its_second_saves_and_the_others_an_improvement():
    belief = belief_of([0.1, 0.5, 0.9], [1.0, 0.9, -1.0])
    part, known = belief.posteriors.parts[0], np.array([[0.1], [0.5], [0.9]])
    mean, variance = part.moments(known, 0)
    moves = belief.deviation(part, variance)
    rises = rise_of_the_best(belief, known)
    for place in range(3):
        others = np.delete(mean[:, 0], place).max()
        direct = quad(
            lambda y, others=others, place=place: max(y, others) * norm.pdf(y, mean[place, 0], moves[place]), -8, 8
        )[0]
        assert rises[place] == pytest.approx(direct - mean.max(), abs=1e-6)
    assert rises[0] == pytest.approx(rises[1], rel=1e-6)  # both are known equally well
    assert rises[2] < 0.01 * rises[0]


def test_a_best_that_is_far_ahead_or_known_well_is_not_worth_a_run():
    near = offer_to_run_again(belief_of([0.1, 0.5], [1.0, 0.9]), 1.0)
    far = offer_to_run_again(belief_of([0.1, 0.5], [4.0, -4.0]), 1.0)
    known = offer_to_run_again(belief_of([0.1] * 30 + [0.5] * 30, [1.0] * 30 + [0.9] * 30), 1.0)
    exact = offer_to_run_again(belief_of([0.1, 0.5], [1.0, 0.9], noise=1e-8), 1.0)
    for each in (near, far, known, exact):
        assert each is not None
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
