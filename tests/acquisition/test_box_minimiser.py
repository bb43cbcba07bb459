"""Many minimisations over the unit cube at once."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from bmbo.acquisition.box_minimiser import minimise_box


def quadratics(num, dim, seed=0):
    """Convex quadratics whose centres lie inside and outside of the cube, and where to start."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(num, dim, dim))
    hessian = roots @ roots.transpose(0, 2, 1) / dim + 0.05 * np.eye(dim)
    centre = rng.uniform(-0.5, 1.5, size=(num, dim))
    start = rng.uniform(size=(num, dim))
    return tuple(array.astype(np.float32) for array in (hessian, centre, start))


def quadratic(unit, hessian, centre):
    return 0.5 * jnp.einsum("bi,bij,bj->b", unit - centre, hessian, unit - centre)


@jax.jit
def minimised(hessian, centre, start):
    return minimise_box(lambda unit: quadratic(unit, hessian, centre), start, max_steps=100)


def rosenbrock(unit, *, right):
    """Rosenbrock on [-2, right] x [-1, 2]; its valley ends at (1, 1), beyond the cube where right < 1."""
    first, second = -2.0 + (right + 2.0) * unit[:, 0], -1.0 + 3.0 * unit[:, 1]
    return 100.0 * (second - first**2) ** 2 + (1.0 - first) ** 2


@pytest.mark.parametrize("dim", [2, 8])
def test_quadratics_with_active_bounds_end_where_scipy_ends(dim):
    hessian, centre, start = quadratics(32, dim)
    found = minimised(hessian, centre, start)
    hessian, centre = hessian.astype(np.float64), centre.astype(np.float64)
    active = 0
    for row in range(32):

        def value_and_gradient(unit, row=row):
            slope = hessian[row] @ (unit - centre[row])
            return 0.5 * (unit - centre[row]) @ slope, slope

        options = {"ftol": 1e-14, "gtol": 1e-10}
        bounds = [(0.0, 1.0)] * dim
        exact = minimize(value_and_gradient, start[row], jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        np.testing.assert_allclose(found.value[row], exact.fun, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.unit[row], exact.x, atol=1e-3)
        active += np.sum((exact.x == 0.0) | (exact.x == 1.0))
    assert active > 32, "the test should meet bounds"


@pytest.mark.parametrize(("right", "first", "second", "value"), [(2.0, 0.75, 2 / 3, 0.0), (0.5, 1.0, 1.25 / 3, 0.25)])
def test_rosenbrock_ends_at_its_optimum_inside_and_on_the_boundary(right, first, second, value):
    start = jax.random.uniform(jax.random.key(0), (16, 2))
    found = jax.jit(lambda start: minimise_box(partial(rosenbrock, right=right), start, max_steps=150))(start)
    np.testing.assert_allclose(found.value, value, atol=1e-5)
    np.testing.assert_allclose(found.unit, np.tile([first, second], (16, 1)), atol=2e-3)


def test_a_start_at_the_optimum_takes_one_step_and_stays():
    start = jnp.asarray([[0.3, 1.0]])
    found = minimise_box(lambda unit: (unit[:, 0] - 0.3) ** 2 - unit[:, 1], start, max_steps=50)
    assert int(found.steps) == 1
    np.testing.assert_array_equal(found.unit, start)
    assert float(found.gradient_norm[0]) < 1e-6


def test_regions_without_a_value_are_not_entered():
    def function(unit):
        # Lower towards the right, where there is no value beyond 0.6.
        return jnp.where(unit[:, 0] < 0.6, -unit[:, 0] + unit[:, 1] ** 2, jnp.nan)

    start = jnp.asarray([[0.1, 0.9], [0.5, 0.5], [0.8, 0.5]])
    found = minimise_box(function, start, max_steps=60)
    assert np.all(np.asarray(found.unit[:2, 0]) < 0.6)
    assert np.all(np.asarray(found.value[:2]) < np.asarray(function(start)[:2]) - 0.05)
    # A row that starts without a value stays, and does not spoil the others.
    np.testing.assert_array_equal(found.unit[2], start[2])
    assert np.isinf(found.value[2])


@pytest.mark.parametrize("max_steps", [2, 20])
def test_no_row_ends_above_its_start_however_few_the_steps(max_steps):
    hessian, centre, start = quadratics(64, 4, seed=1)

    def rough(unit):
        return quadratic(unit, hessian, centre) + 0.3 * jnp.sum(jnp.sin(25.0 * unit), axis=1)

    found = jax.jit(lambda start: minimise_box(rough, start, max_steps=max_steps))(start)
    # Compiled alone the function may round otherwise.
    assert np.all(np.asarray(found.value) <= np.asarray(rough(jnp.asarray(start))) + 1e-6)


def test_rows_do_not_depend_on_each_other():
    hessian, centre, start = quadratics(32, 2, seed=2)
    together = minimised(hessian, centre, start)
    # The same rows in another order and company.
    order = np.arange(32)[::-1]
    turned = minimised(hessian[order], centre[order], np.where(np.arange(32)[:, None] < 16, start[order], 0.5))
    np.testing.assert_allclose(together.unit[order][:16], turned.unit[:16], atol=1e-5)


def test_the_function_is_traced_once():
    traces = []

    def function(unit):
        traces.append(unit.shape)
        return jnp.sum(unit**2, axis=1)

    jax.jit(lambda start: minimise_box(function, start, max_steps=10))(jnp.full((3, 2), 0.5))
    assert len(traces) == 1
