"""Condition a Gaussian process over points and levels on observations: exact moments, and imagined outcomes."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from bmbo.history.host_observations import Floats, Integers, Observations

LEAST_VARIANCE = 1e-10
MOST_EXTRA_NOISE = 1e3
"""Noise at which a covariance that still cannot be factorised is given up. Values are of order one."""


@runtime_checkable
class Process(Protocol):
    """Describe a Gaussian process of mean zero over points and levels, before anything is observed."""

    @property
    def noise(self) -> Floats:
        """Return the variance of an observation about its function, per level [m]."""
        ...

    def variance(self, level: int) -> float:
        """Return the variance of every point of a level."""
        ...

    def covariance(self, unit: Floats, level: Integers, other: Floats, other_level: Integers) -> Floats:
        """Return the covariances [q b] of points [q d] at levels [q] with points [b d] at levels [b]."""
        ...


@dataclass(frozen=True)
class ConditionedProcess:
    """Hold a process conditioned on observations: an `ExactPosterior`.

    Imagined outcomes have one column for each imagined future. They change the variance in the same way in every
    future, and the mean of each future in its own way.

    Attributes:
        process: before anything is observed.
        unit: observed and imagined points, [n d].
        level: their levels, [n].
        values: standardised, [n f].
        factor: Cholesky factor of the covariance of the values, [n n].
    """

    process: Process
    unit: Floats
    level: Integers
    values: Floats
    factor: Floats

    @classmethod
    def of(cls, process: Process, observations: Observations) -> "ConditionedProcess":
        """Return the posterior; raise LinAlgError if the covariance cannot be factorised."""
        unit, level = observations.unit, observations.level
        total = process.covariance(unit, level, unit, level)
        total[np.diag_indices(len(total))] += process.noise[level]
        return cls(process, unit, level, observations.value[:, None], factorised(total))

    @property
    def noise(self) -> Floats:
        """See `ExactPosterior`."""
        return self.process.noise

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """See `ExactPosterior`."""
        cross = self._cross(unit, level)
        half = self._solved(cross)
        variance = self.process.variance(level) - np.einsum("ij,ij->j", half, half)
        return cross @ self._weights, np.maximum(variance, LEAST_VARIANCE)

    def covariance(self, unit: Floats, level: int, other: Floats, other_level: int) -> Floats:
        """See `ExactPosterior`."""
        prior = self.process.covariance(unit, np.full(len(unit), level), other, np.full(len(other), other_level))
        return prior - self._solved(self._cross(unit, level)).T @ self._solved(self._cross(other, other_level))

    def imagined(self, unit: Floats, level: int, white: Floats) -> "ConditionedProcess":
        """See `ExactPosterior`."""
        mean, variance = self.moments(unit[None], level)
        deviation = math.sqrt(float(variance[0] + self.noise[level]))
        outcome = mean[0] + deviation * white
        size = len(self.factor)
        factor = np.zeros((size + 1, size + 1))
        factor[:size, :size] = self.factor
        factor[size, :size] = self._solved(self._cross(unit[None], level))[:, 0]
        factor[size, size] = deviation
        known = np.broadcast_to(self.values, (size, len(outcome)))
        return replace(
            self,
            unit=np.vstack([self.unit, unit]),
            level=np.append(self.level, level),
            values=np.vstack([known, outcome]),
            factor=factor,
        )

    @cached_property
    def _weights(self) -> Floats:
        """Return the solved values [n f]."""
        return cho_solve((self.factor, True), self.values, check_finite=False)

    def _cross(self, unit: Floats, level: int) -> Floats:
        return self.process.covariance(unit, np.full(len(unit), level), self.unit, self.level)

    def _solved(self, cross: Floats) -> Floats:
        return solve_triangular(self.factor, cross.T, lower=True, check_finite=False)


def factorised(total: Floats) -> Floats:
    """Return the Cholesky factor; points that coincide but for rounding get as much more noise as it takes."""
    extra = 0.0
    while True:
        try:
            return cholesky(total + extra * np.eye(len(total)), lower=True, check_finite=False)
        except LinAlgError:
            extra = max(10.0 * extra, 1e-7)
            if extra > MOST_EXTRA_NOISE:
                raise
