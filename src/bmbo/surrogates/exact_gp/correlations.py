"""Compute correlations from squared distances, with what a gradient needs."""

from collections.abc import Callable

import numpy as np

from bmbo.history.host_observations import Floats

Correlation = Callable[[Floats], tuple[Floats, Floats]]
"""Map squared distances to correlations, and to minus twice their derivatives."""


def matern52(square: Floats) -> tuple[Floats, Floats]:
    """Return the Matern correlation of smoothness 5/2."""
    distance = np.sqrt(5.0 * square)
    decay = np.exp(-distance)
    slope = (1.0 + distance) * decay
    return slope + (5.0 / 3.0) * square * decay, (5.0 / 3.0) * slope


def gaussian(square: Floats) -> tuple[Floats, Floats]:
    """Return the correlation of an analytic function."""
    correlation = np.exp(-0.5 * square)
    return correlation, correlation


KERNELS: dict[str, Correlation] = {"matern": matern52, "gaussian": gaussian}
