"""Use one exact surrogate for a few levels and another for many."""

from dataclasses import dataclass, field
from typing import Any

from bmbo.history.host_observations import Observations
from bmbo.problem.spread_levels import has_many
from bmbo.protocols import ExactSurrogate, WeightedPosteriors
from bmbo.surrogates.exact_gp import JointGP
from bmbo.surrogates.fidelity_gp import FidelityGP


@dataclass(frozen=True)
class ByNumberOfLevels:
    """Learn with `few` where each level can have a process of its own, and with `many` beyond: an `ExactSurrogate`."""

    few: ExactSurrogate = field(default_factory=JointGP)
    many: ExactSurrogate = field(default_factory=FidelityGP)

    def fit(self, observations: Observations, carry: Any = None) -> tuple[WeightedPosteriors, Any]:
        """See `ExactSurrogate`. A study has as many levels from its first trial to its last, and so has a cache."""
        return (self.many if has_many(observations.num_levels) else self.few).fit(observations, carry)
