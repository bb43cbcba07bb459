"""Search at random, with NumPy alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmbo.history import History, Query
from bmbo.problem import Problem

MOST_TRIED = 2000
"""Points among which one that may be run is looked for."""


@dataclass(frozen=True)
class Random:
    """Search uniformly at random at the top fidelity."""

    @property
    def handles(self) -> frozenset[str]:
        """See `Demanding`."""
        return frozenset({"constraints", "feasible", "directions", "noisy"})

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        levels = [history.problem.ladder.top] * num
        return random_queries(seed, history.problem, len(history.trials), levels), carry


def random_queries(seed: int, problem: Problem, first: int, levels: Sequence[int]) -> list[Query]:
    """Return one query for each level, uniform in the cube and snapped.

    `first` is the number of the first trial. The query of a trial depends on the seed and the trial's number alone.
    """
    queries: list[Query] = []
    for offset, level in enumerate(levels):
        rng = np.random.default_rng([seed, first + offset])
        drawn = (rng.random(problem.space.dim) for _ in range(MOST_TRIED))
        queries.append(Query(first_allowed(problem, drawn), level))
    return queries


def first_allowed(problem: Problem, drawn: Iterable[NDArray[np.float64]]) -> tuple[float, ...]:
    """Return the first of some points of the cube, snapped, that may be run; raise ValueError if none may."""
    for point in drawn:
        unit = tuple(float(u) for u in problem.space.snap(point))
        if problem.allows(unit):
            return unit
    raise ValueError(f"no feasible point was found among {MOST_TRIED} random ones: make the space smaller")
