"""The posterior of the joint process, against direct solves."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from bmbo.history.host_observations import Observations
from bmbo.protocols import ExactPosterior
from bmbo.surrogates.conditioned_process import ConditionedProcess, factorised
from bmbo.surrogates.exact_gp.joint_process import JointProcess
from support.joint_process import (
    NUM_LEVELS,
    PRIOR,
    SPACE,
    direct_covariance,
    observed_covariance,
    some_hyperparameters,
    some_observations,
    some_points,
)


@pytest.mark.parametrize("kernel", ["matern", "gaussian"])
def test_moments_are_those_of_a_direct_solve(kernel):
    _, _, hyper = some_hyperparameters(kernel)
    data, points = some_observations(), some_points(6)
    posterior = ConditionedProcess.of(JointProcess(data.space, hyper, PRIOR), data)
    assert isinstance(posterior, ExactPosterior)
    total = observed_covariance(hyper, data)
    levels = {level: np.full(6, level) for level in (1, 2)}
    cross = {level: direct_covariance(hyper, points, levels[level], data.unit, data.level) for level in (1, 2)}
    for level in (1, 2):
        mean, variance = posterior.moments(points, level)
        own = direct_covariance(hyper, points, levels[level], points, levels[level])
        assert np.allclose(mean[:, 0], cross[level] @ np.linalg.solve(total, data.value))
        assert np.allclose(variance, np.diag(own - cross[level] @ np.linalg.solve(total, cross[level].T)))
    prior = direct_covariance(hyper, points, levels[2], points, levels[1])
    direct = prior - cross[2] @ np.linalg.solve(total, cross[1].T)
    assert np.allclose(posterior.covariance(points, 2, points, 1), direct)


def test_an_imagined_outcome_counts_like_an_observed_one():
    _, _, hyper = some_hyperparameters()
    data, points, unit = some_observations(), some_points(5, seed=9), some_points(1, seed=8)[0]
    before = ConditionedProcess.of(JointProcess(data.space, hyper, PRIOR), data)
    after = before.imagined(unit, 1, np.array([-1.0, 0.7]))
    mean, variance = before.moments(unit[None], 1)
    deviation = np.sqrt(variance[0] + hyper.noise[1])
    assert np.allclose(after.values[-1], mean[0, 0] + deviation * np.array([-1.0, 0.7]))
    for future in range(2):
        value = np.append(data.value, after.values[-1, future])
        more = Observations(SPACE, NUM_LEVELS, np.vstack([data.unit, unit]), np.append(data.level, 1), value)
        direct = ConditionedProcess.of(JointProcess(more.space, hyper, PRIOR), more)
        assert np.allclose(direct.moments(points, 2)[0][:, 0], after.moments(points, 2)[0][:, future])
        assert np.allclose(direct.moments(points, 2)[1], after.moments(points, 2)[1])


def test_a_covariance_that_rounding_made_singular_gets_more_noise():
    nearly = np.ones((3, 3)) - 1e-9 * np.diag([0.0, 1.0, 1.0])
    factor = factorised(nearly)
    assert np.allclose(factor @ factor.T, nearly, atol=1e-5)
    with pytest.raises(LinAlgError):
        factorised(-1e6 * np.eye(3))
