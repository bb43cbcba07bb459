"""Find hyperparameters for a history: on a schedule and from scratch, so that they depend on the outcomes alone."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bmbo.history.host_observations import Floats, Observations
from bmbo.protocols import WeightedPosteriors
from bmbo.surrogates.conditioned_process import ConditionedProcess
from bmbo.surrogates.exact_gp.distances import squares
from bmbo.surrogates.exact_gp.joint_process import JointProcess
from bmbo.surrogates.exact_gp.kept_rows import kept_rows
from bmbo.surrogates.exact_gp.level_and_tail_scaling import scales_of, standardised
from bmbo.surrogates.exact_gp.prior_and_evidence import Evidence, Hyperparameters, Layout, Prior

FIRST_SEARCH = 4
"""Outcomes at which hyperparameters are searched for the first time."""
SHORTER = 1.2
"""How much shorter, in the logarithm, the length-scales of the second start are."""
FEW = 80
"""Up to so many outcomes, the search starts from shorter length-scales too. With more, it goes to the same place."""
NEGLIGIBLE = 0.05
"""Weight below which a kernel is left out."""


@dataclass(frozen=True)
class Found:
    """Hold hyperparameters and the data that they were found on: a cache, never a part of the result."""

    data: bytes
    hypers: tuple[Hyperparameters, ...]
    weights: Floats


@dataclass(frozen=True)
class JointGP:
    """Learn one exact Gaussian process over all levels, on the host in double precision: an `ExactSurrogate`.

    Args:
        prior: of the hyperparameters.
        noisy_prior: the same where a user says that values are noisy.
        kernels: that are fitted and weighted by their evidence.
        growth: share by which the outcomes grow between two searches for hyperparameters.
        steps: of a search for hyperparameters.
        max_fit: most outcomes on which hyperparameters are searched.
        max_rows: most outcomes on which the process is conditioned.
    """

    prior: Prior = field(default_factory=Prior)
    noisy_prior: Prior = field(default_factory=lambda: Prior(noise=1e-3, noise_sd=2.0))
    kernels: tuple[str, ...] = ("matern", "gaussian")
    growth: float = 0.1
    steps: int = 40
    max_fit: int = 200
    max_rows: int = 600

    def fit(self, observations: Observations, carry: Any = None) -> tuple[WeightedPosteriors, Any]:
        """See `ExactSurrogate`."""
        early = observations.rows(np.arange(scheduled(len(observations), self.growth)))
        found = self._found(_prepared(early, self.max_fit), carry)
        scales = scales_of(observations)
        data = _prepared(observations, self.max_rows)
        prior = self._prior(observations)
        parts = tuple(ConditionedProcess.of(JointProcess(data.space, hyper, prior), data) for hyper in found.hypers)
        # Before the top has outcomes, its values are expected to be like those of the highest level that has.
        units = tuple(scales[level].unit if level in scales else math.nan for level in range(data.num_levels))
        return WeightedPosteriors(parts, found.weights, scales[max(scales)].restore, units), found

    def _found(self, data: Observations, carry: Any) -> Found:
        """Return the hyperparameters for standardised data: those of `carry` if it has the same data."""
        key = data.value.tobytes() + data.level.tobytes() + data.unit.tobytes()
        if isinstance(carry, Found) and carry.data == key:
            return carry
        layout = Layout(len(data.space.params), data.num_levels, self._prior(data))
        starts = _starts(layout, len(data))
        distances = squares(data.space, data.unit)
        vectors: list[Floats] = []
        heights: list[float] = []
        for kernel in self.kernels:
            theta, height = best_hyperparameters(Evidence(data, layout, kernel, distances), starts, self.steps)
            vectors.append(theta)
            heights.append(height)
        weights = np.exp(min(heights) - np.array(heights))
        weights /= weights.sum()
        kept = [place for place in range(len(self.kernels)) if weights[place] >= NEGLIGIBLE]
        hypers = tuple(layout.read(vectors[place], self.kernels[place]) for place in kept)
        return Found(key, hypers, weights[kept] / weights[kept].sum())

    def _prior(self, observations: Observations) -> Prior:
        return self.noisy_prior if observations.noisy else self.prior


def _starts(layout: Layout, num: int) -> list[Floats]:
    """Return where the search for hyperparameters starts."""
    starts = [layout.mean]
    if num <= FEW:
        short = layout.mean.copy()
        short[: layout.num_params] -= SHORTER
        starts.append(short)
    if len(layout.links) and layout.prior.unlike > 0.0:
        # The density of the links has two maxima: a search that starts with resemblance may never leave it.
        unlike = layout.mean.copy()
        unlike[: layout.num_params] -= 0.5 * SHORTER
        unlike[layout.links] = 0.0
        starts.append(unlike)
    return starts


def scheduled(num: int, growth: float) -> int:
    """Return on how many of the outcomes, in their order, the hyperparameters are found."""
    reached = FIRST_SEARCH
    while (ahead := reached + max(2, int(growth * reached))) <= num:
        reached = ahead
    return min(reached, num)


def best_hyperparameters(evidence: Evidence, starts: list[Floats], steps: int) -> tuple[Floats, float]:
    """Return the vector with the lowest height that is reached from the starts, and its height."""
    options = {"maxiter": steps, "maxfun": 2 * steps}
    ends = [minimize(evidence, start, jac=True, method="L-BFGS-B", options=options) for start in starts]
    best = min(ends, key=lambda end: float(end.fun))
    return np.asarray(best.x), float(best.fun)


def _prepared(observations: Observations, most: int) -> Observations:
    """Return standardised observations, thinned out if there are too many."""
    data = standardised(observations, scales_of(observations))
    return data.rows(kept_rows(data.unit, data.level, data.value, data.top, most))
