"""The linear algebra of the last layer against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmbo.surrogates import bayesian_regression
from bmbo.surrogates.bayesian_regression import posterior_weights

SIZE = 6


def problem(seed, size=SIZE):
    """A positive definite matrix, a moment and a xi."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(4, size))
    return 3.0 * features.T @ features + np.eye(size), rng.normal(size=size), rng.normal(size=size)


def weigh(solution, seed=9):
    """A number that depends on all of a solution."""
    half_log_determinant, explained, last = solution
    weights = jnp.asarray(np.random.default_rng(seed).normal(size=last.shape), last.dtype)
    return 0.7 * half_log_determinant - 0.3 * explained + weights @ last + jnp.sum(last**2)


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_solution_is_the_closed_form(seed):
    gram, moment, xi = problem(seed)
    half_log_determinant, explained, last = posterior_weights(*map(jnp.asarray, (gram, moment, xi)))
    factor = np.linalg.cholesky(gram)
    np.testing.assert_allclose(half_log_determinant, 0.5 * np.linalg.slogdet(gram)[1], rtol=1e-12)
    np.testing.assert_allclose(explained, moment @ np.linalg.solve(gram, moment), rtol=1e-12)
    expected = np.linalg.solve(gram, moment) + np.linalg.inv(factor).T @ xi
    np.testing.assert_allclose(last, expected, rtol=1e-10)


def test_in_single_precision_the_solution_is_right_to_single_precision():
    gram, moment, xi = problem(2)
    solution = posterior_weights(*(jnp.asarray(part, jnp.float32) for part in (gram, moment, xi)))
    assert all(part.dtype == jnp.float32 for part in solution)
    expected = np.linalg.solve(gram, moment) + np.linalg.inv(np.linalg.cholesky(gram)).T @ xi
    np.testing.assert_allclose(solution[2], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("seed", [3, 4])
def test_the_gradient_by_hand_is_the_one_jax_derives(seed):
    parts = tuple(map(jnp.asarray, problem(seed)))
    ours, plain = (
        jax.jit(jax.grad(lambda *a, f=function: weigh(f(*a)), (0, 1, 2)))(*parts)
        for function in (posterior_weights, bayesian_regression._solve)
    )
    # Only the symmetric part of a gradient with respect to a symmetric matrix means anything.
    np.testing.assert_allclose(ours[0] + ours[0].T, plain[0] + plain[0].T, rtol=1e-9, atol=1e-10)
    for mine, theirs in zip(ours[1:], plain[1:], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("output", [0, 1, 2])
def test_the_gradient_of_each_output_is_its_finite_difference(output):
    parts = tuple(map(jnp.asarray, problem(5)))
    rng = np.random.default_rng(6)
    direction = [jnp.asarray(rng.normal(size=part.shape)) for part in parts]
    direction[0] = direction[0] + direction[0].T

    def value(*a):
        part = posterior_weights(*a)[output]
        return jnp.sum(part * jnp.arange(1.0, part.size + 1).reshape(part.shape))

    step = 1e-5
    ahead, behind = (value(*(p + s * d for p, d in zip(parts, direction, strict=True))) for s in (step, -step))
    slopes = jax.grad(value, (0, 1, 2))(*parts)
    along = sum(jnp.sum(g * d) for g, d in zip(slopes, direction, strict=True))
    # Central differences are off by the square of the step.
    np.testing.assert_allclose(along, (ahead - behind) / (2 * step), rtol=1e-7)


@pytest.mark.usefixtures("double")
def test_the_gradient_in_the_matrix_is_symmetric():
    parts = tuple(map(jnp.asarray, problem(7)))
    of_gram = jax.grad(lambda *a: weigh(posterior_weights(*a)))(*parts)
    np.testing.assert_allclose(of_gram, of_gram.T, rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("double")
def test_a_batch_is_its_members_one_by_one():
    members = [tuple(map(jnp.asarray, problem(seed))) for seed in range(5)]
    batch = tuple(jnp.stack(column) for column in zip(*members, strict=True))
    together = jax.vmap(posterior_weights)(*batch)
    gradient = jax.jit(jax.grad(lambda *a: weigh(posterior_weights(*a)), (0, 1, 2)))
    slopes = jax.jit(jax.vmap(gradient))(*batch)
    for place, member in enumerate(members):
        for all_of_them, alone in zip(together, posterior_weights(*member), strict=True):
            np.testing.assert_allclose(all_of_them[place], alone, rtol=1e-12)
        for all_of_them, alone in zip(slopes, gradient(*member), strict=True):
            np.testing.assert_allclose(all_of_them[place], alone, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("double")
def test_a_batch_that_shares_its_matrix_is_its_members_one_by_one():
    gram, moment, _ = map(jnp.asarray, problem(8))
    many = jnp.asarray(np.random.default_rng(8).normal(size=(4, SIZE)))
    together = jax.vmap(posterior_weights, (None, None, 0))(gram, moment, many)[2]
    np.testing.assert_allclose(together, [posterior_weights(gram, moment, xi)[2] for xi in many], rtol=1e-12)


@pytest.mark.usefixtures("double")
def test_standard_normal_xi_gives_weights_with_the_posterior_mean_and_covariance():
    gram, moment, _ = problem(10, size=3)
    num = 40000
    xi = jax.random.normal(jax.random.key(11), (num, 3))
    # One factorisation serves all: the solution is affine in xi.
    origin = posterior_weights(jnp.asarray(gram), jnp.asarray(moment), jnp.zeros(3))[2]
    slope = jax.jacrev(lambda x: posterior_weights(jnp.asarray(gram), jnp.asarray(moment), x)[2])(jnp.zeros(3))
    few = jax.vmap(posterior_weights, (None, None, 0))(jnp.asarray(gram), jnp.asarray(moment), xi[:50])[2]
    np.testing.assert_allclose(few, origin[None] + xi[:50] @ slope.T, rtol=1e-9, atol=1e-12)
    weights = np.asarray(origin[None] + xi @ slope.T)

    covariance = np.linalg.inv(gram)
    deviations = np.sqrt(np.diag(covariance))
    mean_error = (weights.mean(axis=0) - covariance @ moment) / deviations
    assert np.all(np.abs(mean_error) < 5 / np.sqrt(num))
    scaled_error = (np.cov(weights.T) - covariance) / np.outer(deviations, deviations)
    # A sample covariance of scaled normals has standard error sqrt((1 + r^2) / num), at most sqrt(2 / num).
    assert np.all(np.abs(scaled_error) < 5 * np.sqrt(2 / num))
    np.testing.assert_allclose(slope @ slope.T, covariance, rtol=1e-10, atol=1e-12)
