"""Algorithm 1: random queries first, then a surrogate learnt from all that is known and a batch chosen from it."""

import logging
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bmbo.acquisition.recommendation import Recommendation, most_improving, recommend
from bmbo.history import History, Query
from bmbo.history.dataset import Dataset, scales_of
from bmbo.history.scaling import Scale
from bmbo.inference import Info, complaints
from bmbo.policies import device as runtime
from bmbo.policies.random_search import random_queries
from bmbo.protocols import Posterior, Select, Surrogate

logger = logging.getLogger("bmbo")

IMPROVES = "improves"
"""Tag of a query that was chosen for its expected improvement."""

Seen = tuple[tuple[int, float | None], ...]
"""Trials that a fit has seen, with their values, in the order of their numbers."""


@dataclass(frozen=True)
class Carry:
    """What the last suggestion leaves for the next: the chains of the anchor, and the posterior of the newest data."""

    anchored: Seen
    chains: Any
    seen: Seen
    posterior: Posterior
    info: Any


@dataclass(frozen=True)
class Bayes:
    """Bayesian optimisation with any surrogate and any way to select.

    Chains are warm-started, and still the suggestion is a function of (key, history) alone: a fit starts from the fit
    to the first outcomes up to an anchor, and anchors are fixed numbers of outcomes. Whoever lacks the anchor's chains
    (a process that resumes) finds them again by one more fit.

    Args:
        surrogate: what learns.
        select: what chooses.
        num_startup: random queries at each level before the surrogate takes over.
        improve: the share of queries at the top that go where the expected improvement is largest: information then
            decides how many of a batch go to which level. Alone it learns where the optimum is without going there.
        anchor_growth: anchors are this factor apart; None fits anew each time.
        squeeze: whether values that are bad out of all proportion are squeezed before the surrogate sees them, see
            `Scale.squeezing`.
        device: where to compute.
    """

    surrogate: Surrogate
    select: Select
    num_startup: int = 5
    improve: float = 1.0
    anchor_growth: float | None = 1.5
    squeeze: bool = False
    device: runtime.Device = "auto"

    def __post_init__(self) -> None:
        if self.num_startup < 1:
            raise ValueError(f"num_startup must be at least 1, got {self.num_startup}")
        if not 0 <= self.improve <= 1:
            raise ValueError(f"improve must be a share between 0 and 1, got {self.improve}")
        if self.anchor_growth is not None and not self.anchor_growth > 1:
            raise ValueError(f"anchor_growth must be above 1, got {self.anchor_growth}")

    def suggest(self, key: PRNGKeyArray, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        key_startup, key_fit, key_select = jax.random.split(key, 3)
        first = len(history.trials)
        levels = self._levels_to_start(history)[:num]
        if levels:
            return random_queries(key_startup, history.problem, first, levels), carry
        if not history.done:
            if history.pending:
                return [], carry
            return random_queries(key_startup, history.problem, first, [0] * num), carry
        learned = self._learned(key_fit, history, carry)
        if learned is None:
            levels = [(first + place) % history.problem.ladder.num_levels for place in range(num)]
            return random_queries(key_startup, history.problem, first, levels), carry
        carry = learned
        pending = [trial.query for trial in history.pending]
        key_batch, key_improve = jax.random.split(jax.random.fold_in(key_select, first))
        with runtime.computing_on(self.device):
            queries = self.select(key_batch, carry.posterior, history.priced, pending, num)
            return self._improved(key_improve, history, carry.posterior, queries), carry

    def _learned(self, key: PRNGKeyArray, history: History, carry: Any) -> Carry | None:
        """What was learned; None where numbers failed, which is said and must not end a run of a week."""
        told = len(history.told)
        try:
            learned = self.learn(key, history, carry)
        except (ArithmeticError, ValueError, RuntimeError) as error:  # NumPy's, SciPy's and XLA's are all of these
            logger.warning("the fit to %d outcomes failed (%s): random queries instead", told, error)
            return None
        if not _finite(learned.posterior):
            logger.warning("the fit to %d outcomes is not finite: random queries instead", told)
            return None
        return learned

    def _improved(self, key: PRNGKeyArray, history: History, posterior: Posterior, queries: list[Query]) -> list[Query]:
        """The batch, with some of its places at the top moved to where the expected improvement is largest."""
        places = self._places_to_improve(history, queries)
        best = history.best
        if not places or best is None:
            return queries
        problem, queries = history.problem, list(queries)
        top = problem.ladder.top
        standardised = self._top_scale(history).standardised(problem.sign * (best.value or 0.0))
        known = [trial.query.unit for trial in history.told if trial.query.level == top]
        taken = [trial.query.unit for trial in history.pending if trial.query.level == top]
        taken += [query.unit for place, query in enumerate(queries) if query.level == top and place not in places]
        for place in places:
            key_place = jax.random.fold_in(key, place)
            unit = most_improving(key_place, posterior, problem, standardised, known=known, taken=taken)
            queries[place] = Query(unit, top, {IMPROVES: True})
            taken.append(unit)
        return queries

    def _places_to_improve(self, history: History, queries: list[Query]) -> list[int]:
        """Those at the top that keep the share of queries chosen for improvement at what was asked for."""
        top = history.problem.ladder.top
        asked = [trial.query for trial in history.trials if trial.query.level == top][self.num_startup :]
        num_improve, places = sum(IMPROVES in query.tag for query in asked), list[int]()
        for place, query in enumerate(queries):
            if query.level == top:
                asked.append(query)
                if num_improve + 1 <= self.improve * len(asked):
                    places.append(place)
                    num_improve += 1
        return places

    def learn(self, key: PRNGKeyArray, history: History, carry: Any = None) -> Carry:
        """Fits all outcomes, from the chains of their anchor."""
        told = history.told
        seen = tuple((trial.number, trial.value) for trial in told)
        known = carry if isinstance(carry, Carry) else None
        if known is not None and known.seen == seen:
            return known
        runtime.enable_cache()
        anchor = self._anchor(len(told))
        with runtime.computing_on(self.device):
            if known is not None and known.anchored == seen[:anchor]:
                chains = known.chains
            else:
                data = Dataset.of_trials(history, told[:anchor], squeeze=self.squeeze)
                posterior, chains, info = self.surrogate.fit(jax.random.fold_in(key, anchor), data)
                if anchor == len(told):
                    return _reported(Carry(seen, chains, seen, posterior, info))
            data = Dataset.of_trials(history, told, squeeze=self.squeeze)
            posterior, _, info = self.surrogate.fit(jax.random.fold_in(key, len(told)), data, chains)
        return _reported(Carry(seen[:anchor], chains, seen, posterior, info))

    def recommendation(self, key: PRNGKeyArray, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """Where the surrogate expects the best value at the top fidelity, and that value with its uncertainty."""
        _, key_fit, _ = jax.random.split(key, 3)
        carry = self.learn(key_fit, history, carry)
        top = history.problem.ladder.top
        known = [trial.query.unit for trial in history.done if trial.query.level == top]
        with runtime.computing_on(self.device):
            return recommend(key, carry.posterior, history.problem, self._top_scale(history), known), carry

    def _top_scale(self, history: History) -> Scale:
        """What standardised the values of the top level that the surrogate learnt."""
        return scales_of(history, squeeze=self.squeeze)[history.problem.ladder.top]

    def _levels_to_start(self, history: History) -> list[int]:
        """Levels of the random queries still to come, the cheapest first."""
        asked = [trial.query.level for trial in history.trials]
        num_levels = history.problem.ladder.num_levels
        return [level for level in range(num_levels) for _ in range(self.num_startup - asked.count(level))]

    def _anchor(self, num_told: int) -> int:
        """The largest anchor that so many outcomes reach; all of them while they are few."""
        anchor = 8.0  # fits to fewer are as fast from scratch
        if self.anchor_growth is None or num_told < anchor:
            return num_told
        while int(anchor * self.anchor_growth) <= num_told:
            anchor *= self.anchor_growth
        return int(anchor)


def _finite(posterior: Posterior) -> bool:
    """Whether every number that a posterior is made of is one."""
    return all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(posterior))


def _reported(carry: Carry) -> Carry:
    for complaint in complaints(carry.info) if isinstance(carry.info, Info) else ():
        logger.warning("fit to %d outcomes: %s", len(carry.seen), complaint)
    return carry
