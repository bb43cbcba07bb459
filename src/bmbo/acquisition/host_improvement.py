"""Compute the expected improvement of a Gaussian with NumPy, and its logarithm where it is too small to be a number."""

import math

import numpy as np
from scipy.special import erfcx, ndtr

from bmbo.history.host_observations import Floats

ROOT = math.sqrt(2.0 * math.pi)


def expected_improvement(mean: Floats, sd: Floats, best: Floats | float) -> Floats:
    """Return E[max(f - best, 0)]."""
    z = (mean - best) / sd
    return sd * np.maximum(z * ndtr(z) + np.exp(-0.5 * z * z) / ROOT, 0.0)


def log_expected_improvement(mean: Floats, sd: Floats, best: Floats | float) -> Floats:
    """Return log E[max(f - best, 0)], which is exact far below the best as well."""
    z = (mean - best) / sd
    near, far = np.maximum(z, -1.0), np.minimum(z, -1.0)
    close = np.log(near * ndtr(near) + np.exp(-0.5 * near * near) / ROOT)
    # phi(z) (1 + z Phi(z) / phi(z)). The bracket tends to 1 / z^2, and loses its digits beyond a thousand deviations.
    bracket = 1.0 + far * math.sqrt(0.5 * math.pi) * erfcx(-far / math.sqrt(2.0))
    tail = np.where(far > -1e3, np.log(np.maximum(bracket, 1e-300)), -2.0 * np.log(-far))
    return np.log(sd) + np.where(z > -1.0, close, -0.5 * far * far - math.log(ROOT) + tail)
