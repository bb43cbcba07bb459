"""SHTL's surrogate: heads are Bayesian linear regressions on the learnt features, and training raises the evidence."""

from dataclasses import replace
from typing import Any, cast

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bmbo.history import Dataset
from bmbo.surrogates.shared_basis import SharedBasis, head
from bmbo.testing import check_surrogate

KEY = jax.random.key(0)
SMALL = SharedBasis(widths=(16, 8), num_steps=200, num_steps_warm=20, num_functions=4096)


def sample(num=40):
    """Two levels of one dimension with a common shape."""
    rng = np.random.default_rng(0)
    units = [rng.random((num, 1)), rng.random((num // 2, 1))]
    shape = [np.sin(5.0 * unit[:, 0]) for unit in units]
    return Dataset.of_arrays(units, [shape[0], 3.0 * shape[1] + 1.0])


@pytest.fixture(scope="module")
def fitted():
    data = sample()
    return data, *SMALL.fit(KEY, data)


@pytest.mark.slow
def test_a_head_is_bayesian_linear_regression_on_its_features(fitted):
    data, posterior, _, info = fitted
    features = np.asarray(posterior.layers.features(data.unit), np.float64)
    for level in range(2):
        rows = np.flatnonzero(np.asarray(data.mask)[data.rows(level)]) + data.rows(level).start
        phi, value = features[rows], np.asarray(data.value, np.float64)[rows]
        drawn = np.asarray(posterior.heads[..., level], np.float64)
        # The weights' precision is not kept: it is what the spread of the draws and the data's own leave.
        noise = 1.0 / info.noise[level]
        outputs = drawn @ phi.T
        weight = float(np.exp(SMALL._unravel(data)(fitted[2][0]).log_weight[level]))
        precision = noise * phi.T @ phi + weight * np.eye(phi.shape[1])
        mean = np.linalg.solve(precision, noise * phi.T @ value)
        variance = np.einsum("nk,kl,nl->n", phi, np.linalg.inv(precision), phi)
        assert np.allclose(np.mean(outputs, axis=0), phi @ mean, atol=5 * np.sqrt(np.max(variance) / 4096) + 1e-3)
        assert np.allclose(np.var(outputs, axis=0), variance, rtol=0.15, atol=1e-7)


def test_the_mean_and_factor_of_a_head_are_those_of_a_direct_solve():
    rng = np.random.default_rng(1)
    phi, value = rng.normal(size=(12, 3)), rng.normal(size=12)
    mean, factor = head(phi, value, 0.5, 4.0)
    precision = 4.0 * phi.T @ phi + 0.5 * np.eye(3)
    assert np.allclose(factor @ factor.T, precision)
    assert np.allclose(mean, np.linalg.solve(precision, 4.0 * phi.T @ value))


def test_the_evidence_is_that_of_the_marginal_gaussian():
    data = sample(10)
    surrogate = replace(SMALL, widths=(3,))
    with jax.enable_x64(True):
        starts = surrogate._starts(KEY, data).astype(float)
        moved = starts.at[0, -1].add(-1.0).at[0, -3].add(0.7)
        found = [float(surrogate.log_evidence(flat, data)) for flat in (starts[0], moved[0])]
        expected = []
        for flat in (starts[0], moved[0]):
            parameters = surrogate._unravel(data)(flat)
            phi = np.asarray(parameters.layers.features(data.unit.astype(float)))
            total = 0.0
            for level in range(2):
                rows = np.flatnonzero(np.asarray(data.mask)[data.rows(level)]) + data.rows(level).start
                weight, noise = (float(np.exp(part[level])) for part in (parameters.log_weight, parameters.log_noise))
                covariance = phi[rows] @ phi[rows].T / weight + np.eye(len(rows)) / noise
                total += multivariate_normal(cov=cast(Any, covariance)).logpdf(np.asarray(data.value, float)[rows])
            offsets = np.concatenate([parameters.log_weight, parameters.log_noise - 4.0])
            expected.append(total - 0.5 * np.sum((offsets / 4.0) ** 2))
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], rel=1e-4, abs=1e-4)


@pytest.mark.slow
def test_it_keeps_the_contract_of_a_surrogate():
    check_surrogate(replace(SMALL, widths=(4,), num_steps=10, num_functions=16), sample())


@pytest.mark.slow
def test_levels_that_share_a_shape_are_learnt_well(fitted):
    data, posterior, _, info = fitted
    rows = slice(0, 20)
    error = np.mean(np.asarray(posterior.draw(data.unit[rows]))[..., 1], axis=0) - np.asarray(data.value[rows])
    assert np.sqrt(np.mean(error**2)) < 0.15
    assert np.isfinite(info.log_evidence)


def test_a_warm_fit_goes_on_from_where_the_last_one_ended(fitted):
    data, _, warm, info = fitted
    assert SMALL.fit(KEY, data, warm)[2].log_evidence >= info.log_evidence - 1e-3


@pytest.mark.slow
def test_a_level_without_data_is_no_obstacle():
    unit = np.random.default_rng(0).random((6, 2))
    data = Dataset.of_arrays([unit, unit[:0]], [unit[:, 0], unit[:0, 0]])
    posterior, _, _ = replace(SMALL, widths=(4,), num_steps=10, num_functions=16).fit(KEY, data)
    assert np.all(np.isfinite(posterior.draw(data.unit)))
