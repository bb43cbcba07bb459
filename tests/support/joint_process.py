"""Offer a small mixed space, observations in it, and covariances of the joint process by their definition."""

import numpy as np

import bmbo
from bmbo.history.host_observations import Observations
from bmbo.problem import Categorical, Int, Space
from bmbo.surrogates.exact_gp.correlations import KERNELS
from bmbo.surrogates.exact_gp.prior_and_evidence import Layout, Prior

SPACE = Space(
    {
        "rate": bmbo.Float(0, 1),
        "depth": Int(1, 7),
        "kind": Categorical(["a", "b", "c"]),
        "width": Int(1, 40, log=True),
        "share": bmbo.Float(0, 1, step=0.1),
        "on": Categorical([False, True]),
    }
)
PRIOR = Prior()
NUM_LEVELS = 3
TOP = NUM_LEVELS - 1


def some_points(num, seed=5):
    return SPACE.snap(np.random.default_rng(seed).random((num, SPACE.dim)))


def some_observations(num=14, seed=0):
    rng = np.random.default_rng(seed)
    return Observations(
        SPACE, NUM_LEVELS, some_points(num, seed), rng.integers(0, NUM_LEVELS, num), rng.normal(size=num)
    )


def some_hyperparameters(kernel="matern", seed=1):
    """A layout, a vector near the prior mean, and its readable form."""
    layout = Layout(len(SPACE.params), NUM_LEVELS, PRIOR)
    theta = layout.mean + 0.5 * layout.sd * np.random.default_rng(seed).normal(size=len(layout.mean))
    return layout, theta, layout.read(theta, kernel)


def direct_covariance(hyper, unit, levels, other, other_levels):
    """Covariances entry by entry."""
    total = np.zeros((len(unit), len(other)))
    for i, (x, level) in enumerate(zip(unit, levels, strict=True)):
        for j, (y, other_level) in enumerate(zip(other, other_levels, strict=True)):
            square = 0.0
            for place, block in enumerate(SPACE.blocks):
                unordered = block.stop - block.start > 1
                gap = float(not np.array_equal(x[block], y[block])) if unordered else float(x[block][0] - y[block][0])
                square += gap**2 * np.exp(-2 * hyper.log_length[place])
            total[i, j] = PRIOR.shift + PRIOR.level_shift * (level == other_level)
            for process in range(min(level, other_level) + 1):
                correlation = KERNELS[hyper.kernel](np.array([square * np.exp(-2 * hyper.own[process])]))[0][0]
                total[i, j] += hyper.loading[level, process] * hyper.loading[other_level, process] * correlation
    return total


def observed_covariance(hyper, data):
    """Covariances of the observed values, noise included."""
    total = direct_covariance(hyper, data.unit, data.level, data.unit, data.level)
    return total + np.diag(hyper.noise[data.level])
