"""Evaluate now or look first: closed forms against quadrature and imagined outcomes, and the rule itself."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from bmbo.acquisition.host_improvement import expected_improvement, log_expected_improvement
from bmbo.acquisition.host_search import candidates, climbed, moved
from bmbo.acquisition.look_or_evaluate import Belief, LookOrEvaluate, evaluate_now, look_first
from bmbo.history.same_point import point_key
from bmbo.protocols import WeightedPosteriors
from bmbo.surrogates.conditioned_process import ConditionedProcess
from bmbo.surrogates.exact_gp.joint_process import JointProcess
from support.joint_process import PRIOR, SPACE, TOP, some_hyperparameters, some_observations, some_points

COSTS = (0.1, 0.3, 1.0)


def belief_of(posterior, best=0.3):
    return Belief(WeightedPosteriors((posterior,), np.ones(1), lambda value: value), TOP, (np.array([best]),))


def posterior_with(links=True):
    layout, theta, hyper = some_hyperparameters()
    if not links:
        theta = theta.copy()
        theta[layout.first : layout.noises][~layout.diagonal] = 0.0
        hyper = layout.read(theta, "matern")
    # Without a constant that all levels share, separate levels say nothing about each other.
    data = some_observations()
    prior = PRIOR if links else replace(PRIOR, shift=0.0)
    return ConditionedProcess.of(JointProcess(data.space, hyper, prior), data)


@pytest.mark.parametrize("mean", [-3.0, 0.2, 2.0])
def test_expected_improvement_is_an_integral(mean):
    direct = quad(lambda y: max(y - 0.4, 0.0) * norm.pdf(y, mean, 0.7), 0.4, 12.0)[0]
    at, sd = np.array([mean]), np.array([0.7])
    assert expected_improvement(at, sd, 0.4)[0] == pytest.approx(direct, abs=1e-9)
    assert log_expected_improvement(at, sd, 0.4)[0] == pytest.approx(np.log(direct), rel=1e-5)


def test_log_expected_improvement_goes_on_far_below_the_best():
    heights = log_expected_improvement(-np.logspace(0, 8, 200), np.ones(200), 0.0)
    assert np.isfinite(heights).all()
    assert (np.diff(heights) < 0).all()


def test_a_look_earns_what_many_imagined_outcomes_earn():
    posterior, points = posterior_with(), some_points(6)
    earned = look_first(belief_of(posterior), points, points[:1], 1)[0]
    outcomes = norm.ppf((np.arange(400) + 0.5) / 400)
    after = [belief_of(posterior.imagined(points[0], 1, np.array([white]))) for white in outcomes]
    assert earned == pytest.approx(np.mean([evaluate_now(each, points).max() for each in after]), rel=0.02)


def test_a_level_that_says_nothing_earns_nothing_and_is_not_asked():
    belief, points = belief_of(posterior_with(links=False)), some_points(6)
    assert np.allclose(look_first(belief, points, points, 0), evaluate_now(belief, points).max())
    _, level = LookOrEvaluate().choose(np.random.default_rng(0), belief, SPACE, COSTS, taken=set(), remaining=10.0)
    assert level == TOP


def test_a_look_that_is_nearly_free_and_says_something_comes_first_if_it_can_be_paid():
    belief = Belief.of(WeightedPosteriors((posterior_with(),), np.ones(1), lambda value: value), TOP)
    cheap = (1e-6, 1e-6, 1.0)
    for remaining, looks, expected in ((10.0, True, False), (1.0, True, True), (10.0, False, True)):
        rule = LookOrEvaluate(looks=looks)
        unit, level = rule.choose(np.random.default_rng(0), belief, SPACE, cheap, taken=set(), remaining=remaining)
        assert (level == TOP) == expected
        assert np.array_equal(SPACE.snap(unit), unit)


def test_what_was_asked_is_not_asked_again_until_nothing_else_is_left():
    belief = Belief.of(WeightedPosteriors((posterior_with(),), np.ones(1), lambda value: value), TOP)
    taken = set()
    for _ in range(4):
        rng = np.random.default_rng(0)
        unit, level = LookOrEvaluate().choose(rng, belief, SPACE, COSTS, taken=taken, remaining=10.0)
        assert (point_key(unit), level) not in taken
        taken.add((point_key(unit), level))


def test_futures_average_out_to_what_was_believed():
    belief = Belief.of(WeightedPosteriors((posterior_with(),), np.ones(1), lambda value: value), TOP)
    after = belief.imagined(np.random.default_rng(0), some_points(1, seed=8)[0], 0)
    points = some_points(5)
    before, later = (each.posteriors.parts[0].moments(points, TOP)[0] for each in (belief, after))
    assert later.shape == (5, 4)
    assert np.allclose(later.mean(1), before[:, 0])


def test_neighbours_and_candidates_can_be_run_and_differ_from_their_centres():
    centres = some_points(5)
    rng = np.random.default_rng(1)
    near = moved(SPACE, rng, centres, 0.001, 40)
    assert np.array_equal(SPACE.snap(near), near)
    changed = [(near[:, block] != np.repeat(centres, 40, 0)[:, block]).any(1).mean() for block in SPACE.blocks]
    assert min(changed) > 0.02
    pool = candidates(SPACE, rng, centres, centres)
    assert np.array_equal(SPACE.snap(pool), pool)
    assert len(np.unique(pool, axis=0)) == len(pool)


def test_a_climb_never_goes_down_and_comes_near_a_smooth_optimum():
    def height(points):
        return -((points[:, 0] - 0.37) ** 2)

    start = some_points(20)
    ends, heights = climbed(SPACE, np.random.default_rng(0), height, start, height(start))
    assert np.array_equal(heights, height(ends))
    assert (heights >= np.sort(height(start))[::-1][: len(heights)]).all()
    assert np.abs(ends[:, 0] - 0.37).min() < 1e-3
