"""Let a user's belief about good values guide the search, the less the more is known, and not where data contradict it.

As in piBO (Hvarfner et al., ICLR 2022), the expected improvement is multiplied by the density of the belief to a power
that falls as outcomes come in.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bmbo.history.host_observations import Floats, Observations

Weigh = Callable[[Floats], Floats]
"""Map points [n d] to the logarithms of weights of at most 1 [n]."""

NEGLIGIBLE = 0.01
"""Power below which a belief is left out."""
FEWEST = 4
"""Outcomes of a level before its order of values is compared with the belief."""


@dataclass(frozen=True)
class FadingPrior:
    """Say how fast a belief fades.

    Args:
        strength: the power of the density after one evaluation at the top; after n it is this over n.
        doubts: whether the power falls faster where better outcomes lie where the belief is lower.
    """

    strength: float = 3.0
    doubts: bool = True

    def weigh(self, observations: Observations) -> Weigh | None:
        """Return how points are weighted now; None if no prior was given or nothing is left of it."""
        likely = observations.space.likely
        if likely is None:
            return None
        at_top = int((observations.level == observations.top).sum())
        power = self.strength / max(at_top, 1)
        if self.doubts:
            power *= trust(likely.log_density(observations.unit), observations)
        if power < NEGLIGIBLE:
            return None
        return lambda points: power * likely.log_density(points)


def trust(believed: Floats, observations: Observations) -> float:
    """Return how far outcomes [n] leave a belief [n] standing: 1 if they go with it, near 0 if clearly against it.

    The ranks of values and of beliefs are correlated within each level. Against the belief, the result is the
    probability that chance alone gives so low a correlation, times two.
    """
    scores: list[float] = []
    for level in range(observations.num_levels):
        rows = (observations.level == level) & np.isfinite(observations.value)
        pairs = [_ranks(believed[rows]), _ranks(observations.value[rows])]
        if rows.sum() >= FEWEST and all(np.ptp(ranks) > 0 for ranks in pairs):
            scores.append(float(np.atleast_2d(np.corrcoef(pairs))[0, 1]) * float(np.sqrt(rows.sum() - 1)))
    if not scores:
        return 1.0
    return min(1.0, 2.0 * float(ndtr(sum(scores) / np.sqrt(len(scores)))))


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value; equal ones share their mean. SciPy's function would load all of its statistics."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[places]
