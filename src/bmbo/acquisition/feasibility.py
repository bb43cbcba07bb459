"""Weigh what a query promises with the probability that it keeps the constraints, runs at all, and may be run.

Constraints are learned like the objective, by an exact model of all levels each. While nothing at the top is believed
to keep them, every feasible point is an improvement on `DEPTH` below the worst known one, so that the most probable
points come first, and of these the better ones. Failures are learned as a probability of success: a failed run has no
value, so that none is invented for it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from bmbo.history.host_observations import Floats
from bmbo.protocols import ExactPosterior, WeightedPosteriors

DEPTH = 1.0
"""How far below the worst known value, standardised, the reference lies while nothing is feasible."""
LEAST_SUCCESS = 1e-3
"""Least probability that a run succeeds: regression to frequencies may fall below zero."""
REPEATS = 4
"""Imagined outcomes of the constraints for each imagined outcome of the objective."""
FARTHEST = 60.0
"""Largest standardised bound: beyond it a probability is 0 or 1."""

Allowed = Callable[[Floats], NDArray[np.bool_]]
"""Returns which points [q d] may be run."""


@dataclass(frozen=True)
class Limit:
    """Hold what was learned of one constraint.

    Attributes:
        posteriors: of how far the constraint is kept, as the surrogate standardises it; larger is better.
        bound: the standardised value from which on it is kept.
    """

    posteriors: WeightedPosteriors
    bound: float

    @classmethod
    def of(cls, posteriors: WeightedPosteriors) -> "Limit":
        """Return the limit at zero, in the unit of what the posteriors have learned."""
        low, high = -FARTHEST, FARTHEST
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if float(posteriors.restore(np.array([middle]))[0]) >= 0.0 else (middle, high)
        return cls(posteriors, high)

    def log_probability(self, points: Floats, level: int) -> Floats:
        """Return the logarithm of the probability that points keep the constraint at a level, [q]."""
        each: list[Floats] = []
        for part, weight in zip(self.posteriors.parts, self.posteriors.weights, strict=True):
            mean, variance = part.moments(points, level)
            each.append(math.log(weight) + log_ndtr((mean[:, 0] - self.bound) / np.sqrt(variance)))
        return np.logaddexp.reduce(each, axis=0)

    def imagined(self, unit: Floats, level: int) -> "Limit":
        """Return the limit after one more outcome, at its mean."""
        parts = tuple(part.imagined(unit, level, np.zeros(1)) for part in self.posteriors.parts)
        return replace(self, posteriors=replace(self.posteriors, parts=parts))


@dataclass(frozen=True)
class Success:
    """Hold what was learned of failures, over points alone: a failure is 0, and a run that gave a value is 1."""

    posteriors: WeightedPosteriors

    def log_probability(self, points: Floats) -> Floats:
        """Return the logarithm of the expected frequency of success at points, [q]."""
        mean, _ = self.posteriors.moments(points, 0)
        return np.log(np.clip(self.posteriors.restore(mean), LEAST_SUCCESS, 1.0))


@dataclass(frozen=True)
class Feasibility:
    """Hold all that decides whether a value counts.

    Attributes:
        top: level of the target.
        limits: the constraints, as they were learned.
        success: what was learned of failures; None if nothing has failed.
        allowed: says which points may be run; None if all may.
    """

    top: int
    limits: tuple[Limit, ...] = ()
    success: Success | None = None
    allowed: Allowed | None = None

    def log_probability(self, points: Floats) -> Floats:
        """Return the logarithm of the probability that an evaluation of points at the top counts, [q]."""
        return self._before_limits(points) + sum(
            (limit.log_probability(points, self.top) for limit in self.limits), start=np.zeros(len(points))
        )

    def _before_limits(self, points: Floats) -> Floats:
        total = np.zeros(len(points)) if self.success is None else self.success.log_probability(points)
        return total if self.allowed is None else np.where(self.allowed(points), total, -np.inf)

    def reference(self, points: Floats, means: Floats) -> Floats:
        """Return the value to improve on, [f]: the best of the points [q d] with means [q f] believed to be feasible.

        A point is believed to be feasible if each constraint is kept more probably than not.
        """
        kept = self.likely_kept(points)
        return means[kept].max(0) if kept.any() else means.min(0) - DEPTH

    def likely_kept(self, points: Floats) -> NDArray[np.bool_]:
        """Return which points [q d] are believed to keep all constraints, [q]."""
        kept = np.ones(len(points), np.bool_)
        for limit in self.limits:
            kept &= limit.log_probability(points, self.top) >= math.log(0.5)
        return kept

    def if_it_runs(self, asked: Floats, earned: Floats, now: float) -> Floats:
        """Return what looks at asked points earn, [b], if one that fails leaves everything as it is now."""
        if self.success is None:
            return earned
        runs = np.exp(self.success.log_probability(asked))
        return runs * earned + (1.0 - runs) * now

    def imagined(self, unit: Floats, level: int) -> "Feasibility":
        """Return what is believed with one more query in flight."""
        return replace(self, limits=tuple(limit.imagined(unit, level) for limit in self.limits))

    def after_look(self, points: Floats, asked: Floats, level: int) -> list[Floats]:
        """Return equally probable factors [q b] of what points promise after a look at each of the asked points."""
        fixed = np.repeat(np.exp(self._before_limits(points))[:, None], len(asked), 1)
        moved = [_Moved.of(limit, points, self.top, asked, level) for limit in self.limits]
        factors: list[Floats] = []
        for repeat in range(REPEATS if moved else 1):
            factor = fixed
            for place, each in enumerate(moved):
                # Evenly spread quantiles, in another order for each constraint.
                at = (repeat * (1 + 2 * place) + place) % REPEATS
                factor = factor * each.kept(float(ndtri((at + 0.5) / REPEATS)))
            factors.append(factor)
        return factors


@dataclass(frozen=True)
class _Moved:
    """Hold the moments of a constraint at points [q], and how a look at asked points [b] moves them, for each part."""

    parts: tuple[tuple[float, Floats, Floats, Floats], ...]
    bound: float

    @classmethod
    def of(cls, limit: Limit, points: Floats, top: int, asked: Floats, level: int) -> "_Moved":
        parts: list[tuple[float, Floats, Floats, Floats]] = []
        for part, weight in zip(limit.posteriors.parts, limit.posteriors.weights, strict=True):
            mean, shift, sd = moved_moments(part, points, top, asked, level)
            parts.append((float(weight), mean[:, :1], shift, sd))
        return cls(tuple(parts), limit.bound)

    def kept(self, white: float) -> Floats:
        """Return the probabilities [q b] that the constraint is kept after an outcome, `white` deviations off."""
        total: Floats = np.zeros(())
        for weight, mean, shift, sd in self.parts:
            total = total + weight * ndtr((mean + white * shift - self.bound) / sd)
        return total


def moved_moments(
    part: ExactPosterior, points: Floats, top: int, asked: Floats, level: int
) -> tuple[Floats, Floats, Floats]:
    """Return the means [q f] of points at the top, how far a look moves them, and their deviations after it, [q b]."""
    mean, variance = part.moments(points, top)
    shift = part.covariance(points, top, asked, level)
    shift = shift / np.sqrt(part.moments(asked, level)[1] + part.noise[level])
    return mean, shift, np.sqrt(np.maximum(variance[:, None] - shift**2, 1e-12))
