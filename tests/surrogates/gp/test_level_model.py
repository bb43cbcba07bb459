"""One Gaussian process: its kernels, its evidence, the search for its hyperparameters, and its draws."""

import warnings
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from bmbo.surrogates.gp import coregional_model, level_model
from bmbo.surrogates.gp.hyperparameter_draws import Rival, maximise, search
from bmbo.surrogates.gp.kernels import correlation, correlation_and_slope, frequencies, length_prior, square_distance
from bmbo.surrogates.gp.pathwise_draws import condition, drawn_rows, in_double

ROUGH = [0.0, 1.0]
PEERS: dict[float, Callable[[Any], Any]] = {0.0: RBF, 1.0: lambda length: Matern(length, nu=2.5)}
STRUCTURES = [
    level_model.Structure(0.0),
    level_model.Structure(1.0),
    level_model.Structure(0.0, linked=True),
    level_model.Structure(1.0, linked=True, bent=True),
]


def observations(num=9, num_lower=2, num_draws=3, seed=0):
    rng = np.random.default_rng(seed)
    unit = rng.uniform(size=(num, 2))
    lower = np.sin(3 * unit.sum(axis=1))[:, None] + 0.3 * rng.normal(size=(num_draws, num, num_lower))
    return unit, lower, np.cos(4 * unit[:, 0]) + unit[:, 1]


def vector(num_lower=2):
    mean, _ = level_model.prior(2, num_lower)
    return mean - 1.0 + 0.1 * np.arange(len(mean))


@pytest.mark.parametrize("roughness", ROUGH)
def test_host_device_and_peer_agree_on_correlations(roughness):
    unit, other = (np.random.default_rng(seed).uniform(size=(6, 2)) for seed in (0, 1))
    length = np.array([0.3, 0.8])
    expected = PEERS[roughness](length)(unit, other)
    square = np.sum((unit[:, None] / length - other[None] / length) ** 2, axis=-1)
    np.testing.assert_allclose(correlation_and_slope(square, roughness)[0], expected, rtol=1e-12)
    with jax.enable_x64(True):
        distance = square_distance(jnp.asarray(unit), jnp.asarray(other), jnp.log(jnp.asarray(length)))
        on_device = correlation(distance, jnp.asarray(roughness))
    np.testing.assert_allclose(on_device, expected, rtol=1e-9)


@pytest.mark.parametrize("roughness", ROUGH)
def test_the_slope_is_minus_twice_the_derivative_by_the_squared_distance(roughness):
    square, step = np.array([0.01, 0.5, 3.0]), 1e-6
    ahead, behind = (correlation_and_slope(square + sign * step, roughness)[0] for sign in (1, -1))
    slope = correlation_and_slope(square, roughness)[1]
    np.testing.assert_allclose(slope, -(ahead - behind) / step, rtol=1e-6)


def test_the_gradient_of_a_correlation_is_finite_where_distances_vanish():
    gradient = jax.grad(lambda x: correlation(square_distance(x, jnp.zeros((1, 2)), jnp.zeros(2)), jnp.ones(()))[0, 0])
    np.testing.assert_array_equal(gradient(jnp.zeros((1, 2))), np.zeros((1, 2)))


@pytest.mark.parametrize("roughness", ROUGH)
def test_random_frequencies_have_the_kernel_as_their_characteristic_function(roughness):
    num = 100_000
    drawn = frequencies(np.random.default_rng(0), num, 2, roughness)
    for move in ([0.5, 0.0], [0.4, -0.9], [1.5, 1.5]):
        expected = correlation_and_slope(np.array([np.sum(np.square(move))]), roughness)[0]
        assert abs(np.mean(np.cos(drawn @ np.asarray(move))) - expected[0]) < 5 / np.sqrt(num)


def test_length_scales_are_expected_to_grow_with_the_diagonal():
    assert length_prior(1)[0] == pytest.approx(np.sqrt(2) - 3)
    assert length_prior(9)[0] - length_prior(1)[0] == pytest.approx(np.log(3))


def test_the_centre_of_the_prior_is_where_the_density_of_a_length_is_largest():
    # The log-normal density of Hvarfner et al., as SciPy has it.
    mu, sigma = np.sqrt(2) + 0.5 * np.log(4), np.sqrt(3)
    lengths = np.exp(np.linspace(-5, 3, 8001))
    mode = lengths[np.argmax(scipy.stats.lognorm.pdf(lengths, s=sigma, scale=np.exp(mu)))]
    assert length_prior(4)[0] == pytest.approx(np.log(mode), abs=2e-3)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_evidence_is_the_density_of_the_values_and_the_prior(structure):
    unit, lower, value = observations()
    flat = vector()
    hyper = level_model.Hyper.of(flat, 2, structure)
    covariance = hyper.amplitude * PEERS[structure.roughness](hyper.length)(unit) + hyper.noise * np.eye(9) + 1.0
    for draw in lower:
        if structure.linked:
            covariance += draw @ draw.T / len(lower)
        if structure.bent:
            phi = level_model.bend_features(unit, draw, hyper)
            covariance += phi @ phi.T / len(lower)
    mean, deviation = level_model.prior(2, 2)
    has = level_model.free(structure, 2, 2)
    expected = -0.5 * value @ np.linalg.solve(covariance, value) - 0.5 * np.linalg.slogdet(covariance)[1]
    expected += np.sum(scipy.stats.norm.logpdf(flat, mean, deviation)[has])
    assert level_model.Evidence(unit, lower, value, structure)(flat) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_gradient_of_the_evidence_is_its_derivative(structure):
    unit, lower, value = observations()
    evidence, flat, step = level_model.Evidence(unit, lower, value, structure), vector(), 1e-5
    number, gradient = evidence.with_gradient(flat)
    assert number == pytest.approx(evidence(flat))
    has = level_model.free(structure, 2, 2)
    moves = step * np.eye(len(flat))
    expected = np.array([(evidence(flat + move) - evidence(flat - move)) / (2 * step) for move in moves])
    np.testing.assert_allclose(gradient[has], expected[has], rtol=1e-4, atol=1e-5)
    # Every hyperparameter that the structure has is reached, and no other.
    assert np.all(gradient[has] != 0.0)
    assert np.all(gradient[~has] == 0.0)


def latent_model(seed=0, num=12):
    rng = np.random.default_rng(seed)
    sizes = coregional_model.Sizes(2, 3, 2)
    unit, rows = rng.uniform(size=(num, 2)), np.sort(rng.integers(0, 3, num))[::-1]
    model = coregional_model.Evidence(unit, rows, rng.normal(size=num), np.array([0.0, 1.0]), sizes)
    return model, sizes, sizes.starts()[1] + 0.1 * rng.normal(size=sizes.starts()[1].shape)


def test_the_gradient_of_the_joint_evidence_is_its_derivative():
    model, _, flat = latent_model()
    number, gradient = model.with_gradient(flat)
    assert number == pytest.approx(model(flat))
    moves, step = 1e-5 * np.eye(len(flat)), 1e-5
    expected = [(model(flat + move) - model(flat - move)) / (2 * step) for move in moves]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_the_joint_covariance_is_the_linear_model_of_coregionalisation():
    model, sizes, flat = latent_model()
    latents = coregional_model.Latents.of(flat, sizes)
    expected = np.diag(latents.noise[model.level])
    for j, kind in enumerate(model.roughness):
        between = np.outer(latents.loading[j], latents.loading[j]) + np.diag(latents.kappa[j])
        kernel = PEERS[float(kind)](latents.length[j])(model.unit)
        expected += latents.amplitude[j] * kernel * between[np.ix_(model.level, model.level)]
    np.testing.assert_allclose(model.covariance(latents), expected, atol=1e-9)


class Bell:
    """A Gaussian density times a constant, over three numbers of which the second stays."""

    def __init__(self, centre, widths, constant):
        self.centre, self.widths, self.constant = np.asarray(centre), np.asarray(widths), constant

    def __call__(self, flat):
        return self.constant + float(np.sum(scipy.stats.norm.logpdf(flat, self.centre, self.widths)[[0, 2]]))

    def with_gradient(self, flat):
        return self(flat), np.array([1.0, 0.0, 1.0]) * (self.centre - flat) / self.widths**2


def bell(constant, log_odds=0.0):
    free = np.array([True, False, True])
    density = Bell([1.0, 9.0, -2.0], [0.1, 1.0, 0.5], constant)
    return Rival(density, free, [np.array([0.0, 7.0, 0.0])], np.ones(3), log_odds)


def test_a_search_finds_the_maximum_and_leaves_what_is_not_free():
    mode, value = maximise(bell(3.0), 50)
    np.testing.assert_allclose(mode, [1.0, 7.0, -2.0], atol=1e-2)
    assert value == pytest.approx(bell(3.0).density(np.array([1.0, 7.0, -2.0])), abs=1e-3)


def test_rivals_are_drawn_in_proportion_to_evidence_and_prior_odds():
    rivals = [bell(0.0), bell(np.log(3.0)), bell(np.log(4.0), -np.log(4.0)), bell(-50.0)]
    found = search(np.random.default_rng(0), rivals, num=1000, num_proposals=500, max_steps=50)
    np.testing.assert_allclose(found.shares, [0.2, 0.6, 0.2, 0.0], atol=0.03)
    assert found.log_evidence == pytest.approx(np.log((1 + 3 + 1) / (3 + 0.25)), abs=0.05)
    for place, share in enumerate(found.shares):
        assert abs(np.mean(found.owner == place) - share) < 2e-3
    # The draws have the moments of the Gaussian.
    np.testing.assert_allclose(found.flat.mean(axis=0), [1.0, 7.0, -2.0], atol=0.05)
    np.testing.assert_allclose(found.flat.std(axis=0), [0.1, 0.0, 0.5], rtol=0.1)


def test_a_single_draw_is_the_maximum_of_the_likeliest_rival():
    found = search(np.random.default_rng(0), [bell(0.0), bell(3.0)], num=1, num_proposals=20, max_steps=50)
    assert found.owner == [1]
    np.testing.assert_array_equal(found.flat, found.modes[1:])


def test_a_density_without_a_value_anywhere_still_gives_a_draw():
    class Nowhere(Bell):
        def __call__(self, flat):
            return -np.inf * np.ones_like(flat)[0]

        def with_gradient(self, flat):
            return -np.inf, np.zeros_like(flat)

    rival = Rival(Nowhere([0.0] * 3, [1.0] * 3, 0.0), np.ones(3, bool), [np.ones(3)], np.ones(3))
    found = search(np.random.default_rng(0), [rival], num=4, num_proposals=8, max_steps=5)
    np.testing.assert_array_equal(found.flat, np.ones((4, 3)))


@pytest.mark.parametrize("roughness", ROUGH)
def test_the_fit_is_as_good_as_the_peers(roughness):
    unit, _, _ = observations(30)
    value = np.cos(7 * unit[:, 0]) + unit[:, 1] ** 2 + 0.05 * np.random.default_rng(2).normal(size=30)
    evidence = level_model.Evidence(unit, np.zeros((1, 30, 0)), value, level_model.Structure(roughness))
    mode, best = maximise(
        Rival(
            evidence,
            level_model.free(level_model.Structure(roughness), 2, 0),
            level_model.starts(2, 0),
            level_model.prior(2, 0)[1],
        ),
        100,
    )
    kernel = ConstantKernel(1.0) * PEERS[roughness]([0.5, 0.5]) + WhiteKernel(1e-2) + ConstantKernel(1.0, "fixed")
    peer = cast(Any, GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0).fit(unit, value))
    theta = peer.kernel_.theta
    found = np.array([*theta[1:3], theta[0], np.log(np.exp(theta[3]) - level_model.SMALLEST_NOISE), *mode[4:]])
    # Under the same density ours is at least as good; and the likelihood alone, which the peer maximises, is near its.
    assert best >= evidence(found) - 1e-2
    mean, deviation = level_model.prior(2, 0)
    likelihood = best - np.sum(scipy.stats.norm.logpdf(mode, mean, deviation)[:4]) - 15 * np.log(2 * np.pi)
    assert likelihood > peer.log_marginal_likelihood_value_ - 3.0


@pytest.mark.parametrize("roughness", ROUGH)
def test_draws_have_the_moments_of_the_exact_posterior(roughness):
    num = 4000
    unit, _, value = observations(12)
    flat = np.array([np.log(0.4), np.log(0.7), np.log(1.5), np.log(0.01), 0.0, 0.0])
    hyper = level_model.Hyper.of(flat, 2, level_model.Structure(roughness))
    kernel = ConstantKernel(hyper.amplitude) * PEERS[roughness](hyper.length) + ConstantKernel(1.0)
    peer = GaussianProcessRegressor(kernel, alpha=hyper.noise, optimizer=cast(Any, None)).fit(unit, value)
    at = np.random.default_rng(3).uniform(size=(4, 2))
    mean, covariance = peer.predict(at, return_cov=True)
    rng = np.random.default_rng(4)
    draws = condition(rng, unit, np.zeros((num, 12, 0)), value, [hyper] * 8, num_features=1024, num_rows=16)
    drawn = np.asarray(draws.draw(jnp.asarray(at, jnp.float32), jnp.zeros((num, 4, 0))), np.float64)
    deviations = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * deviations / np.sqrt(num) + 1e-4)
    # Beside the sampling error there is that of the random features: 8 x 1024 of them.
    error = (np.cov(drawn.T) - covariance) / np.outer(deviations, deviations)
    assert np.all(np.abs(error) < 5 * np.sqrt(2 / num) + 5 * np.sqrt(1 / 8192))


def test_draws_have_room_for_more_observations_so_that_few_shapes_recur():
    assert [drawn_rows(count) for count in (0, 32, 33, 128, 129)] == [32, 32, 128, 128, 512]


def test_draws_with_links_are_regressions_on_their_own_lower_outputs():
    # With next to no process of its own, a level is a linear function of the lower outputs, whatever the draw's are.
    num, unit = 64, observations(10)[0]
    slopes = np.linspace(0.5, 1.5, num)
    lower = slopes[:, None, None] * np.sin(4 * unit[:, :1])[None]
    value = 0.3 + 0.8 * np.sin(4 * unit[:, 0])
    flat = np.array([0.0, 0.0, np.log(1e-6), np.log(1e-6), 0.0, 0.0, 0.0])
    hyper = level_model.Hyper.of(flat, 2, level_model.Structure(0.0, linked=True))
    draws = condition(np.random.default_rng(0), unit, lower, value, [hyper] * 2, num_features=64, num_rows=10)
    at = np.random.default_rng(1).uniform(size=(5, 2))
    below = jnp.asarray(slopes[:, None, None] * np.sin(4 * at[:, :1])[None], jnp.float32)
    drawn = draws.draw(jnp.asarray(at, jnp.float32), below)
    np.testing.assert_allclose(drawn, np.tile(0.3 + 0.8 * np.sin(4 * at[:, 0]), (num, 1)), atol=0.02)
    np.testing.assert_allclose(draws.links[..., 1].reshape(-1) * slopes, np.full(num, 0.8), atol=0.02)


@pytest.mark.slow
def test_an_update_of_millions_keeps_its_digits_and_gives_gradients_without_a_warning():
    rng = np.random.default_rng(0)
    unit = rng.uniform(size=(60, 2))
    value = np.sin(3 * unit[:, 0]) * np.cos(2 * unit[:, 1])
    hyper = level_model.Hyper.of(
        np.array([0.0, 0.0, np.log(300.0), np.log(1e-10), 0.0, 0.0]), 2, level_model.Structure(0.0)
    )
    draws = condition(rng, unit, np.zeros((16, 60, 0)), value, [hyper] * 2, num_features=256, num_rows=64)
    assert np.abs(draws.update).max() > 1e5
    at = jnp.asarray(unit, jnp.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draws.draw(at, jnp.zeros((16, 60, 0)))
        each = jnp.broadcast_to(at[:3], (16, 3, 2))
        gradient = jax.jit(jax.grad(lambda x: draws.draw_each(x, jnp.zeros((16, 3, 0))).sum()))(each)
    assert drawn.dtype == jnp.float32
    assert np.sqrt(np.mean((np.asarray(drawn) - value) ** 2)) < 3e-4
    slope = 3 * np.cos(3 * unit[:3, 0]) * np.cos(2 * unit[:3, 1])
    np.testing.assert_allclose(gradient.mean(axis=0)[:, 0], slope, atol=0.1)


def test_double_precision_inside_is_single_outside_forwards_and_backwards():
    # Sixteen million and one: single precision has no such number.
    large = 2.0**24

    @in_double
    def lost(x):
        return (x + large) - large

    assert float(lost(jnp.ones(()))) == 1.0
    assert lost(jnp.ones(())).dtype == jnp.float32
    gradient = jax.jit(jax.grad(lambda x: lost(x) ** 2))(jnp.full((), 3.0))
    assert float(gradient) == 6.0
    assert gradient.dtype == jnp.float32
