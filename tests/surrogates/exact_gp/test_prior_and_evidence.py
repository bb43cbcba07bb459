"""The evidence of the joint process: its value by definition, its gradient by finite differences."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from bmbo.surrogates.exact_gp.distances import scaled, squares
from bmbo.surrogates.exact_gp.prior_and_evidence import REFUSED, Evidence
from support.joint_process import (
    PRIOR,
    SPACE,
    observed_covariance,
    some_hyperparameters,
    some_observations,
    some_points,
)


@pytest.mark.parametrize("kernel", ["matern", "gaussian"])
def test_the_gradient_of_the_evidence_is_that_of_finite_differences(kernel):
    layout, theta, _ = some_hyperparameters(kernel)
    evidence = Evidence(some_observations(), layout, kernel)
    steps = 1e-6 * np.eye(len(theta))
    numeric = [(evidence(theta + step)[0] - evidence(theta - step)[0]) / 2e-6 for step in steps]
    assert np.allclose(evidence(theta)[1], numeric, atol=1e-5)


def test_the_evidence_is_the_density_of_values_and_hyperparameters():
    layout, theta, hyper = some_hyperparameters()
    data = some_observations()
    total = observed_covariance(hyper, data)
    of_values = 0.5 * data.value @ np.linalg.solve(total, data.value) + 0.5 * np.linalg.slogdet(total)[1]
    spread = np.diag(layout.sd**2)
    num_params = len(SPACE.params)
    spread[:num_params, :num_params] += PRIOR.scale_sd**2
    off = theta - layout.mean
    off[layout.links] = 0.0
    links = theta[layout.links]
    alike = norm.pdf(links, PRIOR.link, PRIOR.link_sd)
    density = (1.0 - PRIOR.unlike) * alike + PRIOR.unlike * norm.pdf(links, 0.0, PRIOR.unlike_sd)
    # The evidence leaves out the constant of a Gaussian of the deviation `link_sd` for each link.
    of_links = -np.log(density).sum() - len(links) * math.log(PRIOR.link_sd * math.sqrt(2.0 * math.pi))
    of_theta = 0.5 * off @ np.linalg.solve(spread, off) + of_links
    assert Evidence(data, layout, "matern")(theta)[0] == pytest.approx(of_values + of_theta)


def test_hyperparameters_far_from_the_prior_are_refused():
    layout, theta, _ = some_hyperparameters()
    height, gradient = Evidence(some_observations(), layout, "matern")(theta + 100.0)
    assert height == REFUSED
    assert not gradient.any()


def test_scaled_points_have_the_distances_that_the_parameters_add_up_to():
    points, log_length = some_points(9), np.linspace(-1.0, 1.0, len(SPACE.params))
    moved = scaled(SPACE, points, log_length)
    direct = ((moved[:, None] - moved[None]) ** 2).sum(-1)
    assert np.allclose(direct, np.tensordot(np.exp(-2 * log_length), squares(SPACE, points), 1))
