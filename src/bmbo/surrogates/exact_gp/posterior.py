"""Condition the process on observations: moments over points and levels, and imagined outcomes."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from bmbo.history.host_observations import Floats, Integers, Observations
from bmbo.problem import Space
from bmbo.surrogates.exact_gp.correlations import KERNELS
from bmbo.surrogates.exact_gp.distances import scaled
from bmbo.surrogates.exact_gp.prior_and_evidence import Hyperparameters, Prior

PointsAndLevels = tuple[Floats, Integers]
LEAST_VARIANCE = 1e-10
MOST_EXTRA_NOISE = 1e3
"""Noise at which a covariance that still cannot be factorised is given up. Values are of order one."""


@dataclass(frozen=True)
class JointPosterior:
    """Hold one set of hyperparameters conditioned on observations: an `ExactPosterior`.

    Imagined outcomes have one column for each imagined future. They change the variance in the same way in every
    future, and the mean of each future in its own way.

    Attributes:
        space: what is searched.
        hyper: the hyperparameters.
        prior: where the variances of constants are taken from.
        unit: observed and imagined points, [n d].
        level: their levels, [n].
        values: standardised, [n f].
        factor: Cholesky factor of the covariance of the values, [n n].
    """

    space: Space
    hyper: Hyperparameters
    prior: Prior
    unit: Floats
    level: Integers
    values: Floats
    factor: Floats

    @classmethod
    def of(cls, hyper: Hyperparameters, prior: Prior, observations: Observations) -> "JointPosterior":
        """Return the posterior; raise LinAlgError if the covariance cannot be factorised."""
        points = scaled(observations.space, observations.unit, hyper.log_length)
        total = _prior_covariance(hyper, prior, (points, observations.level), (points, observations.level))
        total[np.diag_indices(len(total))] += hyper.noise[observations.level]
        values = observations.value[:, None]
        return cls(observations.space, hyper, prior, observations.unit, observations.level, values, _factorised(total))

    @property
    def noise(self) -> Floats:
        """See `ExactPosterior`."""
        return self.hyper.noise

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """See `ExactPosterior`."""
        cross = self._cross(unit, level)
        half = self._solved(cross)
        variance = self._level_variance(level) - np.einsum("ij,ij->j", half, half)
        return cross @ self._weights, np.maximum(variance, LEAST_VARIANCE)

    def covariance(self, unit: Floats, level: int, other: Floats, other_level: int) -> Floats:
        """See `ExactPosterior`."""
        prior = self._prior(unit, np.full(len(unit), level), other, np.full(len(other), other_level))
        return prior - self._solved(self._cross(unit, level)).T @ self._solved(self._cross(other, other_level))

    def imagined(self, unit: Floats, level: int, white: Floats) -> "JointPosterior":
        """See `ExactPosterior`."""
        mean, variance = self.moments(unit[None], level)
        deviation = math.sqrt(float(variance[0] + self.hyper.noise[level]))
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
        return self._prior(unit, np.full(len(unit), level), self.unit, self.level)

    def _solved(self, cross: Floats) -> Floats:
        return solve_triangular(self.factor, cross.T, lower=True, check_finite=False)

    def _level_variance(self, level: int) -> float:
        return float((self.hyper.loading[level] ** 2).sum()) + self.prior.shift + self.prior.level_shift

    def _prior(self, unit: Floats, levels: Integers, other: Floats, other_levels: Integers) -> Floats:
        length = self.hyper.log_length
        one, two = scaled(self.space, unit, length), scaled(self.space, other, length)
        return _prior_covariance(self.hyper, self.prior, (one, levels), (two, other_levels))


def _prior_covariance(hyper: Hyperparameters, prior: Prior, at: PointsAndLevels, others: PointsAndLevels) -> Floats:
    """Return the covariances of scaled points at their levels before anything is observed."""
    (one, levels), (other, other_levels) = at, others
    square = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2.0 * one @ other.T
    np.maximum(square, 0.0, out=square)
    total = prior.shift + prior.level_shift * (levels[:, None] == other_levels)
    for place, own in enumerate(hyper.own):
        rows, columns = np.flatnonzero(levels >= place), np.flatnonzero(other_levels >= place)
        if len(rows) and len(columns):
            loads = np.outer(hyper.loading[levels[rows], place], hyper.loading[other_levels[columns], place])
            block = np.ix_(rows, columns)
            total[block] += loads * KERNELS[hyper.kernel](square[block] * math.exp(-2.0 * own))[0]
    return total


def _factorised(total: Floats) -> Floats:
    """Return the Cholesky factor; points that coincide but for rounding get as much more noise as it takes."""
    extra = 0.0
    while True:
        try:
            return cholesky(total + extra * np.eye(len(total)), lower=True, check_finite=False)
        except LinAlgError:
            extra = max(10.0 * extra, 1e-7)
            if extra > MOST_EXTRA_NOISE:
                raise
