"""Learn from a history, beginning each fit at the chains of an earlier fit.

A suggestion stays a function of the seed and the history alone. A fit begins at the chains of an anchor, which is the
fit to the first outcomes, and the anchors are fixed numbers of outcomes. A process that lacks the anchor's chains, such
as one that resumes a study, finds them again by one more fit.
"""

import logging
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
from jaxtyping import PRNGKeyArray

from bmbo.history import Dataset, History
from bmbo.inference import Info, complaints
from bmbo.protocols import Posterior, Surrogate

logger = logging.getLogger("bmbo")

FIRST_ANCHOR = 8.0
"""Outcomes of the first anchor: fits to fewer are as fast from scratch."""

Seen: TypeAlias = tuple[tuple[int, float | None], ...]
"""Numbers and values of the trials that a fit has seen, in the order of their numbers."""


@dataclass(frozen=True)
class Learned:
    """Hold what was learned from a history, and the chains that later fits begin at.

    Attributes:
        seen: what the newest fit has seen.
        data: the standardised observations of that fit, with their scales.
        posterior: of that fit.
        anchored: what the anchor's fit has seen.
        chains: of the anchor's fit.
        info: how the newest fit went, as its surrogate reports it.
    """

    seen: Seen
    data: Dataset
    posterior: Posterior
    anchored: Seen
    chains: Any
    info: Any = None


@runtime_checkable
class Learner(Protocol):
    """Learn from a history."""

    def learn(self, key: PRNGKeyArray, history: History, known: Learned | None) -> Learned:
        """Return what is learned from all outcomes; `known` is a cache that an earlier call returned."""
        ...


@dataclass(frozen=True)
class WarmStart:
    """Fit a surrogate to all outcomes, beginning at the chains of their anchor.

    Args:
        surrogate: the model that is fitted.
        growth: each anchor has this many times the outcomes of the one before; None fits from scratch each time.
        squeeze: whether values that are far worse than the others are squeezed first, see `Scale.squeezing`.
    """

    surrogate: Surrogate
    growth: float | None = 1.5
    squeeze: bool = False

    def __post_init__(self) -> None:
        if self.growth is not None and not self.growth > 1:
            raise ValueError(f"growth must be above 1, or None, got {self.growth}")

    def learn(self, key: PRNGKeyArray, history: History, known: Learned | None) -> Learned:
        """See `Learner`."""
        told = history.learned_from
        seen = tuple((trial.number, trial.value) for trial in told)
        if known is not None and known.seen == seen:
            return known
        anchor = self.anchor(len(told))
        if known is not None and known.anchored == seen[:anchor]:
            chains = known.chains
        else:
            data = Dataset.of_trials(history, told[:anchor], squeeze=self.squeeze)
            posterior, chains, info = self.surrogate.fit(jax.random.fold_in(key, anchor), data)
            if anchor == len(told):
                _warn(info, anchor)
                return Learned(seen, data, posterior, anchored=seen, chains=chains, info=info)
        data = Dataset.of_trials(history, told, squeeze=self.squeeze)
        posterior, _, info = self.surrogate.fit(jax.random.fold_in(key, len(told)), data, chains)
        _warn(info, len(told))
        return Learned(seen, data, posterior, anchored=seen[:anchor], chains=chains, info=info)

    def anchor(self, num_told: int) -> int:
        """Return the largest anchor that a number of outcomes reaches; this number itself while it is small."""
        anchor = FIRST_ANCHOR
        if self.growth is None or num_told < anchor:
            return num_told
        while int(anchor * self.growth) <= num_told:
            anchor *= self.growth
        return int(anchor)


def _warn(info: Any, num_told: int) -> None:
    """Log what is wrong with a fit, if its report says so."""
    for complaint in complaints(info) if isinstance(info, Info) else ():
        logger.warning("fit to %d outcomes: %s", num_told, complaint)
