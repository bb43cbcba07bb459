"""The process over points and places of fidelities: its covariance, evidence, scales and posterior."""

import math

import numpy as np
import pytest

import bmbo
from bmbo.history.host_observations import Observations
from bmbo.problem import Fidelity, FidelityRange, Ladder
from bmbo.problem.spread_levels import places_of
from bmbo.protocols import ExactPosterior, ExactSurrogate
from bmbo.surrogates.by_number_of_levels import ByNumberOfLevels
from bmbo.surrogates.conditioned_process import ConditionedProcess
from bmbo.surrogates.exact_gp import JointGP
from bmbo.surrogates.exact_gp.correlations import KERNELS, matern52
from bmbo.surrogates.exact_gp.distances import squares
from bmbo.surrogates.fidelity_gp import FidelityGP
from bmbo.surrogates.fidelity_gp.evidence import REFUSED, FidelityEvidence, FidelityLayout
from bmbo.surrogates.fidelity_gp.place_process import PlaceProcess
from bmbo.surrogates.fidelity_gp.process import SHIFT, FidelityPrior
from bmbo.surrogates.fidelity_gp.smooth_scaling import smooth_scales
from support.joint_process import SPACE, some_points

NUM_LEVELS = 9
PLACES = np.linspace(0.0, 1.0, NUM_LEVELS)
PLANE = bmbo.Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})


def some_observations(num=14, seed=0):
    rng = np.random.default_rng(seed)
    level = np.append(rng.integers(0, NUM_LEVELS, num - 1), NUM_LEVELS - 1)
    return Observations(SPACE, NUM_LEVELS, some_points(num, seed), level, rng.normal(size=num), PLACES)


def some_hyperparameters(kernel="matern", seed=1):
    layout = FidelityLayout(len(SPACE.params), FidelityPrior())
    theta = layout.mean + 0.5 * layout.sd * np.random.default_rng(seed).normal(size=len(layout.mean))
    return layout, theta, layout.read(theta, kernel)


def direct_covariance(hyper, unit, places, other, other_places):
    """Covariances by their definition, entry by entry."""
    both = np.vstack([unit, other])
    square = np.tensordot(np.exp(-2 * hyper.log_length), squares(SPACE, both), 1)[: len(unit), len(unit) :]
    total = np.zeros(square.shape)
    for i, s in enumerate(places):
        for j, t in enumerate(other_places):
            near = matern52(np.array([((s - t) * math.exp(-hyper.place_length)) ** 2]))[0][0]
            same, own = (
                KERNELS[hyper.kernel](np.array([square[i, j] * factor]))[0][0]
                for factor in (1.0, math.exp(-2 * hyper.own_length))
            )
            target = hyper.target**2 * math.exp(-hyper.fading * (1 - s)) * math.exp(-hyper.fading * (1 - t))
            ends = hyper.own**2 * ((1 - s) * (1 - t)) ** hyper.rise
            total[i, j] = target * same + ends * own * near + hyper.common**2 * near + SHIFT
    return total


@pytest.mark.parametrize("kernel", ["matern", "gaussian"])
def test_the_gradient_of_the_evidence_is_that_of_finite_differences(kernel):
    layout, theta, _ = some_hyperparameters(kernel)
    evidence = FidelityEvidence(some_observations(), layout, kernel)
    steps = 1e-6 * np.eye(len(theta))
    numeric = [(evidence(theta + step)[0] - evidence(theta - step)[0]) / 2e-6 for step in steps]
    assert np.allclose(evidence(theta)[1], numeric, atol=1e-5)


def test_the_evidence_is_the_density_of_values_and_hyperparameters():
    layout, theta, hyper = some_hyperparameters()
    data = some_observations()
    places = PLACES[data.level]
    total = direct_covariance(hyper, data.unit, places, data.unit, places) + np.diag(hyper.noise(places))
    of_values = 0.5 * data.value @ np.linalg.solve(total, data.value) + 0.5 * np.linalg.slogdet(total)[1]
    spread = np.diag(layout.sd**2)
    num_params = len(SPACE.params)
    spread[:num_params, :num_params] += layout.prior.scale_sd**2
    off = theta - layout.mean
    of_theta = 0.5 * off @ np.linalg.solve(spread, off)
    assert FidelityEvidence(data, layout, "matern")(theta)[0] == pytest.approx(of_values + of_theta)
    assert FidelityEvidence(data, layout, "matern")(theta + 100.0)[0] == REFUSED


@pytest.mark.parametrize("kernel", ["matern", "gaussian"])
def test_moments_are_those_of_a_direct_solve(kernel):
    _, _, hyper = some_hyperparameters(kernel)
    data, points = some_observations(), some_points(6, seed=9)
    posterior = ConditionedProcess.of(PlaceProcess(data.space, hyper, data.places), data)
    assert isinstance(posterior, ExactPosterior)
    places = PLACES[data.level]
    total = direct_covariance(hyper, data.unit, places, data.unit, places) + np.diag(hyper.noise(places))
    at = {level: np.full(6, PLACES[level]) for level in (3, NUM_LEVELS - 1)}
    cross = {level: direct_covariance(hyper, points, at[level], data.unit, places) for level in at}
    for level, place in at.items():
        mean, variance = posterior.moments(points, level)
        own = direct_covariance(hyper, points, place, points, place)
        assert np.allclose(mean[:, 0], cross[level] @ np.linalg.solve(total, data.value))
        assert np.allclose(variance, np.diag(own - cross[level] @ np.linalg.solve(total, cross[level].T)))
    low, top = at
    prior = direct_covariance(hyper, points, at[top], points, at[low])
    direct = prior - cross[top] @ np.linalg.solve(total, cross[low].T)
    assert np.allclose(posterior.covariance(points, top, points, low), direct)


def test_an_imagined_outcome_counts_like_an_observed_one():
    _, _, hyper = some_hyperparameters()
    data, points, unit = some_observations(), some_points(5, seed=9), some_points(1, seed=8)[0]
    before = ConditionedProcess.of(PlaceProcess(data.space, hyper, data.places), data)
    after = before.imagined(unit, 4, np.array([-1.0, 0.7]))
    for future in range(2):
        value = np.append(data.value, after.values[-1, future])
        more = Observations(SPACE, NUM_LEVELS, np.vstack([data.unit, unit]), np.append(data.level, 4), value, PLACES)
        direct = ConditionedProcess.of(PlaceProcess(more.space, hyper, more.places), more)
        assert np.allclose(direct.moments(points, 8)[0][:, 0], after.moments(points, 8)[0][:, future])
        assert np.allclose(direct.moments(points, 8)[1], after.moments(points, 8)[1])


def curve(unit, level, places):
    """A function whose errors end towards the target, and whose values change their scale by a factor of a hundred."""
    rest = 1.0 - places[level]
    exact = -((unit - 0.3) ** 2).sum(1)
    return (exact + 0.3 * rest * np.sin(4 * unit[:, 0]) + 2.0 * rest) * 10.0 ** (2 * rest)


def test_values_whose_scale_changes_with_the_fidelity_come_onto_one_scale():
    rng = np.random.default_rng(0)
    level = np.tile(np.arange(NUM_LEVELS), 12)
    unit = rng.random((len(level), 2))
    value = curve(unit, level, PLACES)
    value[5] = np.nan
    data = Observations(PLANE, NUM_LEVELS, unit, level, value, PLACES)
    scales = smooth_scales(data)
    for each in range(NUM_LEVELS):
        found = scales[each].standardise(value[level == each])
        assert np.isfinite(found).all()
        assert np.abs(found).max() < 6.0
        assert found.std() > 0.2
    good = value[level == NUM_LEVELS - 1].max()
    assert scales[NUM_LEVELS - 1].restore(scales[NUM_LEVELS - 1].standardise(np.array([good])))[0] == pytest.approx(
        good
    )


@pytest.mark.parametrize("num", [1, 2, 3])
def test_one_value_is_enough_to_fit_and_all_may_have_failed(num):
    unit = np.random.default_rng(0).random((num, 2))
    for value in (np.full(num, 3.0), np.full(num, np.nan), np.full(num, 1e300)):
        learned, _ = FidelityGP().fit(Observations(PLANE, 100, unit, np.full(num, 40), value))
        mean, variance = learned.moments(unit, 99)
        assert np.isfinite(mean).all()
        assert np.isfinite(variance).all()


def test_many_rough_values_teach_the_target():
    rng = np.random.default_rng(0)
    ladder = Ladder(FidelityRange(1, 81, log=True))
    places = np.array(places_of(ladder))
    level = np.sort(rng.integers(0, ladder.top, 60))
    level[-5:] = ladder.top
    unit = rng.random((60, 2))
    data = Observations(PLANE, ladder.num_levels, unit, level, curve(unit, level, places), places)
    surrogate = FidelityGP()
    learned, found = surrogate.fit(data)
    assert isinstance(surrogate, ExactSurrogate)
    points = rng.random((40, 2))
    truth = curve(points, np.full(40, ladder.top), places)
    mean = learned.restore(learned.moments(points, ladder.top)[0])
    good = truth > np.median(truth)
    assert np.abs(mean - truth)[good].max() < 0.05
    again, cached = surrogate.fit(data, found)
    assert cached is found
    assert np.array_equal(again.parts[0].moments(points, 3)[0], learned.parts[0].moments(points, 3)[0])


def test_few_levels_keep_a_process_each_and_many_share_one():
    unit, value = np.random.default_rng(0).random((6, 2)), np.arange(6.0)
    for num, expected in ((6, JointGP()), (7, FidelityGP())):
        data = Observations(PLANE, num, unit, np.zeros(6, int), value)
        mean = ByNumberOfLevels().fit(data)[0].moments(unit, num - 1)[0]
        assert np.array_equal(mean, expected.fit(data)[0].moments(unit, num - 1)[0])


def test_places_follow_the_logarithm_of_numbers_that_rise_and_else_the_order():
    assert places_of(Ladder([Fidelity(1, cost=1), Fidelity(3, cost=1), Fidelity(9, cost=2)])) == (0.0, 0.5, 1.0)
    named = Ladder([Fidelity(name, cost=1) for name in ("a", "b", "c", "d", "e")])
    assert places_of(named) == (0.0, 0.25, 0.5, 0.75, 1.0)
    zero = Ladder([Fidelity(0, cost=1), Fidelity(1, cost=1), Fidelity(10, cost=1)])
    assert places_of(zero) == (0.0, 0.5, 1.0)
    assert places_of(Ladder(Fidelity("full", cost=1))) == (1.0,)
