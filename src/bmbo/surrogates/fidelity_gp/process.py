"""Describe one Gaussian process over points and places of fidelities: its hyperparameters and its covariance.

The place t of a fidelity lies between 0, the roughest, and 1, the target. With u = 1 - t, the process is a sum:

- the function at the target, times a factor exp(-fading u);
- what a fidelity has of its own, a process over points and places, times a factor u^rise: it ends at the target;
- what all points of a fidelity have in common, a process over places alone.

So fidelities that lie close together are alike, and all become the target towards the top.
"""

import math
from dataclasses import dataclass

import numpy as np

from bmbo.history.host_observations import Floats
from bmbo.surrogates.exact_gp.correlations import KERNELS, matern52

JITTER = 1e-8
"""Least variance of an observation. Values are of order one."""
SHIFT = 1e-9
"""Variance of a constant that all values share."""
PointsAndPlaces = tuple[Floats, Floats]


@dataclass(frozen=True)
class FidelityPrior:
    """Describe the priors of the hyperparameters; all are Gaussian, and values are standardised.

    Attributes:
        length: mean logarithm of a length-scale, less half the logarithm of the number of parameters.
        length_sd: deviation of each parameter's logarithm from what all parameters share.
        scale_sd: deviation of what all parameters share.
        own_length: mean and deviation of the logarithm by which the length-scales of a fidelity's own part differ.
        target: of the logarithm of the deviation of the function at the target.
        fading: of the rate at which that function fades towards the roughest fidelity.
        own: of the logarithm of the deviation of a fidelity's own part, at the roughest.
        rise: of the logarithm of the power with which that part ends at the target.
        place_length: of the logarithm of the length-scale of places.
        common: of the logarithm of the deviation of what all points of a fidelity have in common.
        noise: of the logarithm of the variance of the noise, at the roughest fidelity and at the target.
    """

    length: float = -0.8
    length_sd: float = 0.4
    scale_sd: float = 0.5
    own_length: tuple[float, float] = (0.0, 0.5)
    target: tuple[float, float] = (0.0, 0.5)
    fading: tuple[float, float] = (0.2, 0.8)
    own: tuple[float, float] = (math.log(0.5), 1.0)
    rise: tuple[float, float] = (0.0, 0.5)
    place_length: tuple[float, float] = (math.log(0.5), 0.7)
    common: tuple[float, float] = (math.log(0.3), 1.0)
    noise: tuple[float, float] = (math.log(1e-4), 2.5)


@dataclass(frozen=True)
class FidelityHyperparameters:
    """Hold one set of hyperparameters in a readable form.

    Attributes:
        kernel: name of the correlation over points.
        log_length: logarithm of the length-scale of each parameter, [p].
        own_length: logarithm of the factor on them for a fidelity's own part.
        target: deviation of the function at the target.
        fading: rate at which it fades towards the roughest fidelity.
        own: deviation of a fidelity's own part at the roughest.
        rise: power with which that part ends at the target.
        place_length: logarithm of the length-scale of places.
        common: deviation of what all points of a fidelity have in common.
        low_noise: logarithm of the variance of the noise at the roughest fidelity.
        top_noise: the same at the target.
    """

    kernel: str
    log_length: Floats
    own_length: float
    target: float
    fading: float
    own: float
    rise: float
    place_length: float
    common: float
    low_noise: float
    top_noise: float

    def noise(self, places: Floats) -> Floats:
        """Return the variance of an observation at each place [n]."""
        return np.exp(self.low_noise * (1.0 - places) + self.top_noise * places) + JITTER

    def target_factor(self, places: Floats) -> Floats:
        """Return the factor on the function at the target, at each place [n]."""
        return self.target * np.exp(-self.fading * (1.0 - places))

    def own_factor(self, places: Floats) -> Floats:
        """Return the factor on a fidelity's own part, at each place [n]."""
        return self.own * (1.0 - places) ** self.rise

    def variance(self, place: float) -> float:
        """Return the variance of the process at any point of one place."""
        at = np.array([place])
        own, target = float(self.own_factor(at)[0]), float(self.target_factor(at)[0])
        return target**2 + own**2 + self.common**2 + SHIFT

    def covariance(self, at: PointsAndPlaces, others: PointsAndPlaces) -> Floats:
        """Return the covariances of scaled points at their places, [n k]."""
        (one, place), (other, other_place) = at, others
        square = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2.0 * one @ other.T
        np.maximum(square, 0.0, out=square)
        correlation = KERNELS[self.kernel]
        apart = (place[:, None] - other_place) ** 2 * math.exp(-2.0 * self.place_length)
        near = matern52(apart)[0]
        targets = np.outer(self.target_factor(place), self.target_factor(other_place))
        own = np.outer(self.own_factor(place), self.own_factor(other_place))
        alike = own * correlation(square * math.exp(-2.0 * self.own_length))[0] + self.common**2
        return targets * correlation(square)[0] + alike * near + SHIFT
