"""Information between outputs and the optimum, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmbo.acquisition.batch_information import (
    batch_information,
    centre,
    chance_information,
    gain,
    gaussian_information,
    moments,
    score,
    shifted_information,
    take,
)


def correlated(seed, num_draws, num):
    """Draws of a Gaussian with a random covariance and unequal scales."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(num, num)) * np.geomspace(0.1, 10.0, num)[:, None]
    return jnp.asarray(rng.normal(size=(num_draws, num)) @ mixing.T, jnp.float32)


def equation_6(covariance):
    """Equation (6) of the paper as it is written, in float64."""
    covariance = np.asarray(covariance, np.float64)
    whole, others = np.linalg.slogdet(covariance)[1], np.linalg.slogdet(covariance[:-1, :-1])[1]
    return 0.5 * (others + np.log(covariance[-1, -1]) - whole)


def test_moments_are_those_of_numpy():
    draws = correlated(0, 50, 4)
    mean, covariance = moments(draws)
    np.testing.assert_allclose(mean, np.mean(draws, axis=0), atol=1e-5)
    np.testing.assert_allclose(covariance, np.cov(np.asarray(draws).T), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num", [2, 3, 6])
def test_gaussian_information_is_equation_6(num):
    covariance = np.cov(np.asarray(correlated(1, 200, num), np.float64).T)
    found = gaussian_information(jnp.asarray(covariance, jnp.float32))
    np.testing.assert_allclose(found, equation_6(covariance), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("correlation", [0.0, 0.3, -0.9, 0.999])
def test_two_variables_have_the_information_of_their_correlation(correlation):
    covariance = jnp.asarray([[4.0, 2.0 * correlation], [2.0 * correlation, 1.0]])
    np.testing.assert_allclose(
        gaussian_information(covariance), -0.5 * np.log(1 - correlation**2), rtol=1e-3, atol=1e-6
    )


def test_information_does_not_depend_on_scale_or_shift():
    draws = correlated(2, 300, 4)
    scaled = draws * jnp.asarray([[1e3, 1e-3, 5.0, 7.0]]) + 3.0
    one = batch_information(draws[:, :3], draws[:, 3])
    np.testing.assert_allclose(batch_information(scaled[:, :3], scaled[:, 3]), one, rtol=2e-3)


def test_noise_as_large_as_the_signal_halves_the_explained_share():
    draws = jnp.asarray(np.random.default_rng(3).normal(size=(400, 1)), jnp.float32)
    variance = jnp.var(draws[:, 0], ddof=1)
    found = batch_information(draws, draws[:, 0], variance[None])
    np.testing.assert_allclose(found, -0.5 * np.log(0.5), rtol=1e-4)


def test_a_place_twice_tells_no_more_than_once_and_a_constant_tells_nothing():
    draws = correlated(4, 200, 2)
    once = batch_information(draws[:, :1], draws[:, 1])
    twice = batch_information(jnp.concatenate([draws[:, :1], draws[:, :1]], axis=1), draws[:, 1])
    np.testing.assert_allclose(twice, once, rtol=1e-3, atol=1e-5)
    assert float(batch_information(jnp.ones((200, 1)), draws[:, 1])) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("noise_size", [0.0, 0.5])
def test_gains_add_up_by_the_chain_rule(noise_size):
    draws = correlated(5, 300, 7)
    outputs, optimum = draws[:, :6], draws[:, 6]
    noise = noise_size * jnp.var(outputs, axis=0)
    mask = jnp.asarray([True, True, True])
    taken = take(centre(outputs[:, :3]), noise[:3], mask, centre(optimum))
    np.testing.assert_allclose(taken.information, batch_information(outputs[:, :3], optimum, noise[:3]), rtol=2e-3)
    added = gain(taken, centre(outputs[:, 3:]), noise[3:])
    for candidate in range(3):
        places = jnp.asarray([0, 1, 2, 3 + candidate])
        whole = batch_information(outputs[:, places], optimum, noise[places])
        np.testing.assert_allclose(taken.information + added[candidate], whole, rtol=2e-3, atol=1e-4)


def test_masked_places_are_as_if_they_were_not_there():
    draws = correlated(6, 200, 5)
    optimum = centre(draws[:, 4])
    padded = take(centre(draws[:, :3]), jnp.ones(3), jnp.asarray([True, False, False]), optimum)
    bare = take(centre(draws[:, :1]), jnp.ones(1), jnp.asarray([True]), optimum)
    np.testing.assert_allclose(padded.information, bare.information, rtol=1e-5)
    candidate, noise = centre(draws[:, 3:4]), jnp.ones(1)
    np.testing.assert_allclose(gain(padded, candidate, noise), gain(bare, candidate, noise), rtol=1e-5)
    nobody = take(centre(draws[:, :3]), jnp.ones(3), jnp.zeros(3, bool), optimum)
    assert float(nobody.information) == 0.0


def test_a_candidate_that_is_taken_already_adds_nothing_and_has_a_finite_gradient():
    draws = correlated(7, 200, 4)
    outputs = centre(draws[:, :3])
    taken = take(outputs, jnp.zeros(3), jnp.ones(3, bool), centre(draws[:, 3]))
    mixture = outputs @ jnp.asarray([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.5]])
    np.testing.assert_array_equal(gain(taken, mixture, jnp.zeros(3)), 0.0)
    slope = jax.grad(lambda centred: jnp.sum(gain(taken, centred, jnp.zeros(3))))(mixture)
    assert np.all(np.isfinite(slope))


def test_a_known_optimum_leaves_nothing_to_learn():
    draws = correlated(8, 100, 3)
    taken = take(centre(draws[:, :2]), jnp.zeros(2), jnp.ones(2, bool), jnp.zeros(100))
    assert float(taken.information) == 0.0
    assert float(gain(taken, centre(draws[:, 2:]), jnp.zeros(1))[0]) == 0.0


def test_the_score_is_equation_7_and_never_rewards_expense():
    information, cost = jnp.asarray([1.0, 1.0, 0.02, 0.02, 0.01]), jnp.asarray([1.0, 10.0, 1.0, 10.0, 50.0])
    np.testing.assert_allclose(score(information, cost, 3, 0.0), information / cost)
    corrected = np.asarray(score(information, cost, 3, 0.01))
    np.testing.assert_allclose(corrected[:2], [0.97, 0.097], rtol=1e-5)
    assert corrected[2] == corrected[3] < 0.0, "places below chance are not better for being dear"
    assert corrected[4] < corrected[3]


@pytest.mark.slow
@pytest.mark.parametrize("num_draws", [100, 400])
@pytest.mark.parametrize("num_candidates", [1, 100, 1000])
def test_chance_information_is_what_independent_candidates_show(num_draws, num_candidates):
    def best(key):
        draws = jax.random.normal(key, (num_draws, num_candidates + 1))
        nobody = take(draws[:, :0], jnp.zeros(0), jnp.zeros(0, bool), centre(draws[:, -1]))
        return jnp.max(gain(nobody, centre(draws[:, :-1]), jnp.zeros(num_candidates)))

    # The best of few varies more: two thousand repeats of one candidate, forty of a thousand.
    repeats = 2000 if num_candidates == 1 else 40
    measured = np.mean(jax.lax.map(jax.jit(best), jax.random.split(jax.random.key(9), repeats)))
    np.testing.assert_allclose(measured, chance_information(num_draws, num_candidates), rtol=0.1)


def test_chance_information_of_many_is_about_their_logarithm_over_the_draws():
    for num_draws, num_candidates in [(100, 100), (400, 1000), (1000, 10_000)]:
        np.testing.assert_allclose(
            chance_information(num_draws, num_candidates), np.log(num_candidates) / num_draws, rtol=0.25
        )


@pytest.mark.slow
def test_shifting_measures_the_chance_of_independent_candidates_and_finds_less_for_alike_ones():
    key_outputs, key_optimum = jax.random.split(jax.random.key(10))
    outputs = centre(jax.random.normal(key_outputs, (200, 500)))
    optimum = centre(jax.random.normal(key_optimum, (200,)))
    noise = jnp.zeros(500)
    measured = shifted_information(outputs, noise, optimum, num_shifts=64)
    np.testing.assert_allclose(measured, chance_information(200, 500), rtol=0.15)
    # Five hundred candidates that are mixtures of three have the chance of about three.
    alike = outputs[:, :3] @ jax.random.normal(key_optimum, (3, 500))
    assert shifted_information(alike, noise, optimum, num_shifts=64) < 0.5 * measured
    # It measures chance, not the real dependence.
    related = centre(outputs + optimum[:, None])
    np.testing.assert_allclose(shifted_information(related, noise, optimum, num_shifts=64), measured, rtol=0.3)
