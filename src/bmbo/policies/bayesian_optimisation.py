"""Run Algorithm 1 of the paper: random queries first, then learn from all outcomes and choose a batch."""

import logging
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bmbo.acquisition.recommendation import recommend
from bmbo.history import History, Query
from bmbo.policies.random_search import random_queries
from bmbo.policies.warm_started_fits import Learned, Learner
from bmbo.problem import Problem
from bmbo.protocols import Posterior, Recommendation, Select

logger = logging.getLogger("bmbo")


@dataclass(frozen=True)
class Bayes:
    """Suggest by Bayesian optimisation with any way to learn and any way to select.

    Args:
        learner: what learns from the history.
        select: what chooses a batch from what was learned.
        num_startup: random queries at each level before the learner takes over.
    """

    learner: Learner
    select: Select
    num_startup: int = 5

    def __post_init__(self) -> None:
        if self.num_startup < 1:
            raise ValueError(f"num_startup must be at least 1, got {self.num_startup}")

    def start_sizes(self, problem: Problem) -> tuple[int, ...]:
        """See `Starting`."""
        return (self.num_startup,) * problem.ladder.num_levels

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        key_startup, key_fit, key_select = jax.random.split(jax.random.key(seed), 3)
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
        key_batch = jax.random.fold_in(key_select, first)
        return self.select(key_batch, learned.posterior, learned.data, history, num), learned

    def recommendation(self, seed: int, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """See `Recommending`."""
        key = jax.random.key(seed)
        _, key_fit, _ = jax.random.split(key, 3)
        learned = self.learner.learn(key_fit, history, carry)
        top = history.problem.ladder.top
        known = [trial.query.unit for trial in history.done if trial.query.level == top]
        return recommend(key, learned.posterior, history.problem, learned.data.scales[top], known), learned

    def _learned(self, key: PRNGKeyArray, history: History, carry: Any) -> Learned | None:
        """Return what was learned; None after a numerical failure, which is logged and must not end a long run."""
        told = len(history.told)
        try:
            learned = self.learner.learn(key, history, carry)
        except (ArithmeticError, ValueError, RuntimeError) as error:  # NumPy's, SciPy's and XLA's are all of these
            logger.warning("the fit to %d outcomes failed (%s): random queries instead", told, error)
            return None
        if not _is_finite(learned.posterior):
            logger.warning("the fit to %d outcomes is not finite: random queries instead", told)
            return None
        return learned

    def _levels_to_start(self, history: History) -> list[int]:
        """Return the levels of the random queries that are still to come, the cheapest first."""
        asked = [trial.query.level for trial in history.kept]
        num_levels = history.problem.ladder.num_levels
        return [level for level in range(num_levels) for _ in range(self.num_startup - asked.count(level))]


def _is_finite(posterior: Posterior) -> bool:
    """Return whether all numbers of a posterior are finite."""
    return all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(posterior))
