"""Run Algorithm 1 of the paper: some queries first, then learn from all outcomes and choose a batch."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bmbo.acquisition.expected_improvement import Improvement
from bmbo.acquisition.recommendation import recommend
from bmbo.history import History, Query
from bmbo.policies.first_queries import RandomStart, Start
from bmbo.policies.keyed_queries import keyed_queries
from bmbo.policies.remaining_budget import Remaining, RunLimits
from bmbo.policies.warm_started_fits import Learned, Learner
from bmbo.problem import Problem
from bmbo.protocols import BudgetedSelect, Posterior, Recommendation, Select

logger = logging.getLogger("bmbo")


@dataclass(frozen=True)
class Bayes:
    """Suggest by Bayesian optimisation with any way to learn and any way to select.

    Args:
        learner: what learns from the history.
        select: what chooses a batch from what was learned.
        start: what the run begins with, before the learner takes over.
        limits: of the run; by default there are none.
    """

    learner: Learner
    select: Select
    start: Start = field(default_factory=RandomStart)
    limits: RunLimits = field(default_factory=RunLimits)

    def within(self, total_cost: float | None, n_trials: int | None) -> "Bayes":
        """See `Budgeted`."""
        return replace(self, limits=RunLimits(total_cost, n_trials))

    def start_sizes(self, problem: Problem) -> tuple[int, ...]:
        """See `Starting`."""
        return self.start.sizes(problem, self.limits)

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`.

        Without limits, all that is chosen is asked for. With limits, a query below the top is left out if no evaluation
        at the top could follow it. If nothing is left of a batch, there is one query at the top.
        """
        key_startup, key_fit, key_select = jax.random.split(jax.random.key(seed), 3)
        first = len(history.trials)
        started = self.start.queries(seed, history, num, self.limits)
        if started:
            return started, carry
        left = self.limits.remaining(history)
        if not history.done:
            levels = [] if history.pending else [0] * num
            return _random(key_startup, history, levels, left), carry
        learned = self._learned(key_fit, history, carry)
        if learned is None:
            levels = [(first + place) % history.problem.ladder.num_levels for place in range(num)]
            return _random(key_startup, history, levels, left), carry
        key_batch = jax.random.fold_in(key_select, first)
        select = self.select
        if isinstance(select, BudgetedSelect):
            select = select.with_left(left.budget, left.trials)
        wanted = select(key_batch, learned.posterior, learned.data, history, num)
        queries = left.allowed(wanted)
        if wanted and not queries and left.allows(history.problem.ladder.top):
            queries = Improvement()(key_batch, learned.posterior, learned.data, history, 1)
        return queries, learned

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


def _random(key: PRNGKeyArray, history: History, levels: Sequence[int], left: Remaining) -> list[Query]:
    """Return random queries at some levels as far as they are allowed; if none is, a random query at the top."""
    first, top = len(history.trials), history.problem.ladder.top
    queries = left.allowed(keyed_queries(key, history.problem, first, levels))
    if queries or not levels:
        return queries
    return left.allowed(keyed_queries(key, history.problem, first, [top]))


def _is_finite(posterior: Posterior) -> bool:
    """Return whether all numbers of a posterior are finite."""
    return all(bool(np.all(np.isfinite(np.asarray(leaf)))) for leaf in jax.tree.leaves(posterior))
