"""Find hyperparameters of the process over points and places: on a schedule and from scratch, as `JointGP` does."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bmbo.history.host_observations import Floats, Observations
from bmbo.protocols import WeightedPosteriors
from bmbo.surrogates.conditioned_process import ConditionedProcess
from bmbo.surrogates.exact_gp.distances import squares
from bmbo.surrogates.exact_gp.kept_rows import kept_rows
from bmbo.surrogates.exact_gp.level_and_tail_scaling import standardised
from bmbo.surrogates.exact_gp.surrogate import scheduled
from bmbo.surrogates.fidelity_gp.evidence import FADING, OWN, FidelityEvidence, FidelityLayout
from bmbo.surrogates.fidelity_gp.place_process import PlaceProcess
from bmbo.surrogates.fidelity_gp.process import FidelityHyperparameters, FidelityPrior
from bmbo.surrogates.fidelity_gp.smooth_scaling import smooth_scales

SHORTER = 1.2
"""How much shorter, in the logarithm, the length-scales of the second start are."""
FEW = 80
"""Up to so many outcomes, the search starts from shorter length-scales too."""
NEGLIGIBLE = 0.05
"""Weight below which a kernel is left out."""
UNLIKE_FADING, UNLIKE_OWN = 2.0, 0.0
"""Where the search starts that expects rough fidelities to say little about the target."""


@dataclass(frozen=True)
class FoundHyperparameters:
    """Hold hyperparameters and the data that they were found on: a cache, never a part of the result."""

    data: bytes
    hypers: tuple[FidelityHyperparameters, ...]
    weights: Floats


@dataclass(frozen=True)
class FidelityGP:
    """Learn one exact Gaussian process over points and places of fidelities: an `ExactSurrogate`.

    Its cost does not depend on the number of levels.

    Args:
        prior: of the hyperparameters.
        noisy_prior: the same where a user says that values are noisy.
        kernels: over points, which are fitted and weighted by their evidence.
        growth: share by which the outcomes grow between two searches for hyperparameters.
        steps: of a search for hyperparameters.
        max_fit: most outcomes on which hyperparameters are searched.
        max_rows: most outcomes on which the process is conditioned.
    """

    prior: FidelityPrior = field(default_factory=FidelityPrior)
    noisy_prior: FidelityPrior = field(default_factory=lambda: FidelityPrior(noise=(math.log(1e-3), 2.0)))
    kernels: tuple[str, ...] = ("matern", "gaussian")
    growth: float = 0.1
    steps: int = 40
    max_fit: int = 200
    max_rows: int = 600

    def fit(self, observations: Observations, carry: Any = None) -> tuple[WeightedPosteriors, Any]:
        """See `ExactSurrogate`."""
        if len(observations.places) == 0:
            observations = replace(observations, places=np.linspace(0.0, 1.0, observations.num_levels))
        early = observations.rows(np.arange(scheduled(len(observations), self.growth)))
        found = self._found(_prepared(early, self.max_fit), carry)
        data = _prepared(observations, self.max_rows)
        parts = tuple(
            ConditionedProcess.of(PlaceProcess(data.space, hyper, data.places), data) for hyper in found.hypers
        )
        scales = smooth_scales(observations)
        units = tuple(scales[level].unit for level in range(observations.num_levels))
        return WeightedPosteriors(parts, found.weights, scales[observations.top].restore, units), found

    def _found(self, data: Observations, carry: Any) -> FoundHyperparameters:
        """Return the hyperparameters for standardised data: those of `carry` if it has the same data."""
        key = data.value.tobytes() + data.level.tobytes() + data.unit.tobytes()
        if isinstance(carry, FoundHyperparameters) and carry.data == key:
            return carry
        prior = self.noisy_prior if data.noisy else self.prior
        layout = FidelityLayout(len(data.space.params), prior)
        distances = squares(data.space, data.unit)
        vectors: list[Floats] = []
        heights: list[float] = []
        for kernel in self.kernels:
            evidence = FidelityEvidence(data, layout, kernel, distances)
            theta, height = _lowest(evidence, _starts(layout, len(data)), self.steps)
            vectors.append(theta)
            heights.append(height)
        weights = np.exp(min(heights) - np.array(heights))
        weights /= weights.sum()
        kept = [place for place in range(len(self.kernels)) if weights[place] >= NEGLIGIBLE]
        hypers = tuple(layout.read(vectors[place], self.kernels[place]) for place in kept)
        return FoundHyperparameters(key, hypers, weights[kept] / weights[kept].sum())


def _lowest(evidence: FidelityEvidence, starts: list[Floats], steps: int) -> tuple[Floats, float]:
    """Return the vector with the lowest height that is reached from the starts, and its height."""
    options = {"maxiter": steps, "maxfun": 2 * steps}
    ends = [minimize(evidence, start, jac=True, method="L-BFGS-B", options=options) for start in starts]
    best = min(ends, key=lambda end: float(end.fun))
    return np.asarray(best.x), float(best.fun)


def _starts(layout: FidelityLayout, num: int) -> list[Floats]:
    """Return where the search for hyperparameters starts."""
    starts = [layout.mean]
    if num <= FEW:
        short = layout.mean.copy()
        short[: layout.num_params] -= SHORTER
        starts.append(short)
    # A search that starts with fidelities that resemble each other may never find that they do not.
    unlike = layout.mean.copy()
    unlike[: layout.num_params] -= 0.5 * SHORTER
    unlike[layout.num_params + FADING] = UNLIKE_FADING
    unlike[layout.num_params + OWN] = UNLIKE_OWN
    return [*starts, unlike]


def _prepared(observations: Observations, most: int) -> Observations:
    """Return standardised observations, thinned out if there are too many."""
    data = standardised(observations, smooth_scales(observations))
    return data.rows(kept_rows(data.unit, data.level, data.value, data.top, most))
