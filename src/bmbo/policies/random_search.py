"""Search at random, and make the random queries that other policies begin with or fall back on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bmbo.history import History, Query
from bmbo.problem import Problem


def random_queries(key: PRNGKeyArray, problem: Problem, first: int, levels: Sequence[int]) -> list[Query]:
    """Return one query for each level, uniform in the cube and snapped.

    `first` is the number of the first trial. The query of a trial depends on the key and the trial's number alone.
    """
    queries: list[Query] = []
    for offset, level in enumerate(levels):
        key_trial = jax.random.fold_in(key, first + offset)
        unit = np.asarray(jax.random.uniform(key_trial, (problem.space.dim,)), np.float64)
        queries.append(Query(tuple(float(u) for u in problem.space.snap(unit)), level))
    return queries


@dataclass(frozen=True)
class Random:
    """Search uniformly at random at the top fidelity."""

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        levels = [history.problem.ladder.top] * num
        return random_queries(jax.random.key(seed), history.problem, len(history.trials), levels), carry
