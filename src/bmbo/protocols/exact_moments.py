"""Promise exact means and covariances over points and levels, with NumPy, and what learns them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bmbo.history.host_observations import Floats, Integers, Observations


@runtime_checkable
class ExactPosterior(Protocol):
    """Offer exact means, variances and covariances over points and levels, as NumPy arrays in double precision.

    Values are standardised, and larger is better. Outcomes can be imagined; then there is one mean for each imagined
    future, and one variance for all of them. A posterior never changes.
    """

    @property
    def unit(self) -> Floats:
        """Return the observed and imagined points [n d]."""
        ...

    @property
    def level(self) -> Integers:
        """Return the levels of these points [n]."""
        ...

    @property
    def noise(self) -> Floats:
        """Return the variance of an observation about its function, per level [m]."""
        ...

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """Return means [q f] and variances [q] of one level at points [q d]."""
        ...

    def covariance(self, unit: Floats, level: int, other: Floats, other_level: int) -> Floats:
        """Return the covariances [q b] of one level at points [q d] with another level at points [b d]."""
        ...

    def imagined(self, unit: Floats, level: int, white: Floats) -> "ExactPosterior":
        """Return the posterior after one more outcome at a point [d], `white` [f] deviations off its mean."""
        ...


@dataclass(frozen=True)
class WeightedPosteriors:
    """Hold exact posteriors of several models, and how far each is believed.

    Attributes:
        parts: the posteriors; all have seen the same observations.
        weights: of the parts; their sum is 1.
        restore: maps standardised values of the top level to values in the objective's unit, where larger is better.
        units: what one standardised unit is in the objective's unit near good values, for each level; NaN or None where
            that is not known.
    """

    parts: tuple[ExactPosterior, ...]
    weights: Floats
    restore: Callable[[Floats], Floats]
    units: tuple[float, ...] | None = None

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """Return means [q] and variances [q] over all models at points [q d] of one level, if nothing is imagined."""
        each = [part.moments(unit, level) for part in self.parts]
        means = np.array([mean[:, 0] for mean, _ in each])
        mean = self.weights @ means
        return mean, self.weights @ (np.array([variance for _, variance in each]) + means**2) - mean**2


@runtime_checkable
class ExactSurrogate(Protocol):
    """Learn exact posteriors from observations, on the host."""

    def fit(self, observations: Observations, carry: Any = None) -> tuple[WeightedPosteriors, Any]:
        """Return the posteriors and a cache for the next fit; `carry` is such a cache, and None is always allowed.

        There is at least one observation. Raise ArithmeticError or ValueError after a numerical failure; NumPy's
        LinAlgError is a ValueError.
        """
        ...
