"""Describe the process over all levels before anything is observed: its covariance for one set of hyperparameters."""

import math
from dataclasses import dataclass

import numpy as np

from bmbo.history.host_observations import Floats, Integers
from bmbo.problem import Space
from bmbo.surrogates.exact_gp.correlations import KERNELS
from bmbo.surrogates.exact_gp.distances import scaled
from bmbo.surrogates.exact_gp.prior_and_evidence import Hyperparameters, Prior


@dataclass(frozen=True)
class JointProcess:
    """Hold one set of hyperparameters as a `Process`: a level is a sum over processes, each with its loading.

    Attributes:
        space: what is searched.
        hyper: the hyperparameters.
        prior: where the variances of constants are taken from.
    """

    space: Space
    hyper: Hyperparameters
    prior: Prior

    @property
    def noise(self) -> Floats:
        """See `Process`."""
        return self.hyper.noise

    def variance(self, level: int) -> float:
        """See `Process`."""
        return float((self.hyper.loading[level] ** 2).sum()) + self.prior.shift + self.prior.level_shift

    def covariance(self, unit: Floats, level: Integers, other: Floats, other_level: Integers) -> Floats:
        """See `Process`."""
        hyper, prior = self.hyper, self.prior
        one, two = scaled(self.space, unit, hyper.log_length), scaled(self.space, other, hyper.log_length)
        square = (one**2).sum(1)[:, None] + (two**2).sum(1) - 2.0 * one @ two.T
        np.maximum(square, 0.0, out=square)
        total = prior.shift + prior.level_shift * (level[:, None] == other_level)
        for place, own in enumerate(hyper.own):
            rows, columns = np.flatnonzero(level >= place), np.flatnonzero(other_level >= place)
            if len(rows) and len(columns):
                loads = np.outer(hyper.loading[level[rows], place], hyper.loading[other_level[columns], place])
                block = np.ix_(rows, columns)
                total[block] += loads * KERNELS[hyper.kernel](square[block] * math.exp(-2.0 * own))[0]
        return total
