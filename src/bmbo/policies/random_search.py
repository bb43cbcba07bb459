"""Search at random, and make the random queries that other policies begin with or fall back on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bmbo.history import History, Query
from bmbo.problem import Problem

MOST_TRIED = 2000
"""Points among which one that may be run is looked for."""


def random_queries(key: PRNGKeyArray, problem: Problem, first: int, levels: Sequence[int]) -> list[Query]:
    """Return one query for each level, uniform in the cube and snapped.

    `first` is the number of the first trial. The query of a trial depends on the key and the trial's number alone.
    """
    queries: list[Query] = []
    for offset, level in enumerate(levels):
        key_trial = jax.random.fold_in(key, first + offset)
        queries.append(Query(_allowed_point(key_trial, problem), level))
    return queries


def _allowed_point(key: PRNGKeyArray, problem: Problem) -> tuple[float, ...]:
    """Return a random point that may be run; raise ValueError if many tries find none."""
    for tries in range(MOST_TRIED):
        key_point = jax.random.fold_in(key, tries) if tries else key
        drawn = np.asarray(jax.random.uniform(key_point, (problem.space.dim,)), np.float64)
        unit = tuple(float(u) for u in problem.space.snap(drawn))
        if problem.allows(unit):
            return unit
    raise ValueError(f"no feasible point was found among {MOST_TRIED} random ones: make the space smaller")


@dataclass(frozen=True)
class Random:
    """Search uniformly at random at the top fidelity."""

    @property
    def handles(self) -> frozenset[str]:
        """See `Demanding`."""
        return frozenset({"constraints", "feasible", "noisy"})

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        levels = [history.problem.ladder.top] * num
        return random_queries(jax.random.key(seed), history.problem, len(history.trials), levels), carry
