"""Ask a rule for levels about a few levels that stand for many.

To consider each of a hundred levels takes long, and neighbours offer nearly the same. So the rule sees a ladder of a
few levels, and posteriors, costs and what was asked in terms of these. A level between two of them counts as the lower
one: what is known there is less than at the higher one.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bmbo.acquisition.look_or_evaluate import Belief, Taken
from bmbo.history.host_observations import Floats, Integers
from bmbo.history.prices import Prices
from bmbo.protocols import ExactPosterior, Offer, WeightedPosteriors


@dataclass(frozen=True)
class FewLevels:
    """Translate between all levels and a few of them.

    Args:
        levels: the few, rising; the first and the last are those of the whole ladder.
    """

    levels: tuple[int, ...]

    def below(self, level: int) -> int:
        """Return the highest of the few that is not above a level."""
        return bisect_right(self.levels, level) - 1

    def belief(self, belief: Belief) -> Belief:
        """Return a belief about the few levels."""
        top, feasibility = len(self.levels) - 1, belief.feasibility
        if feasibility is not None:
            limits = (replace(limit, posteriors=self._shown(limit.posteriors)) for limit in feasibility.limits)
            feasibility = replace(feasibility, top=top, limits=tuple(limits))
        front = belief.front
        if front is not None:
            front = front.seen(tuple(map(self._shown, front.objectives)), top)
        return replace(belief, posteriors=self._shown(belief.posteriors), top=top, feasibility=feasibility, front=front)

    def _shown(self, posteriors: WeightedPosteriors) -> WeightedPosteriors:
        return replace(posteriors, parts=tuple(FewLevelsPosterior(part, self.levels) for part in posteriors.parts))

    def costs(self, costs: Sequence[float]) -> tuple[float, ...]:
        """Return the costs of the few."""
        return tuple(costs[level] for level in self.levels)

    def taken(self, taken: Taken) -> Taken:
        """Return what was asked."""
        return {(key, self.below(level)) for key, level in taken}

    def prices(self, prices: Prices) -> Prices:
        """Return the prices; what can be gone on from at a level between two counts as the lower one."""
        resumable = {
            unit: {self.below(level): number for level, number in sorted(left.items())}
            for unit, left in prices.resumable.items()
        }
        return Prices(self.costs(prices.costs), resumable)

    def offers(self, offers: Sequence[Offer]) -> list[Offer]:
        """Return offers of the few as offers of the whole ladder."""
        return [replace(offer, level=self.levels[offer.level]) for offer in offers]


@dataclass(frozen=True)
class FewLevelsPosterior:
    """Show a posterior over many levels as one over a few of them: an `ExactPosterior`."""

    whole: ExactPosterior
    levels: tuple[int, ...]

    @property
    def unit(self) -> Floats:
        """See `ExactPosterior`."""
        return self.whole.unit

    @property
    def level(self) -> Integers:
        """See `ExactPosterior`."""
        return np.searchsorted(self.levels, self.whole.level, side="right") - 1

    @property
    def noise(self) -> Floats:
        """See `ExactPosterior`."""
        return self.whole.noise[list(self.levels)]

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """See `ExactPosterior`."""
        return self.whole.moments(unit, self.levels[level])

    def covariance(self, unit: Floats, level: int, other: Floats, other_level: int) -> Floats:
        """See `ExactPosterior`."""
        return self.whole.covariance(unit, self.levels[level], other, self.levels[other_level])

    def imagined(self, unit: Floats, level: int, white: Floats) -> "FewLevelsPosterior":
        """See `ExactPosterior`."""
        return replace(self, whole=self.whole.imagined(unit, self.levels[level], white))
