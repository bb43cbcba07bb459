"""What a comparison needs to know of a problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import bmbo

NUM_STARTS = 10
"""Random points a level that methods begin from: the paper's number."""

TOP_EVALUATIONS = 30
"""Evaluations at the top that the total cost pays for by default, after the starts: as the first figures of peers on
Branin (a cost of 1,500 at 50 each)."""


def _nothing() -> None:
    """What a problem without data needs."""


@dataclass(frozen=True)
class Benchmark:
    """A problem with its objective.

    Attributes:
        name: by which it is asked for.
        problem: what methods are told of it.
        evaluate: the value of a configuration at a level; deterministic.
        optimum: the best value at the top, or the best known one; None where there is none.
        source: where it was published.
        prepare: gets the data that it needs, or raises `DataMissingError`; called once before any run.
    """

    name: str
    problem: bmbo.Problem
    evaluate: Callable[[Mapping[str, Any], int], float]
    optimum: float | None
    source: str = ""
    prepare: Callable[[], object] = _nothing

    def start_cost(self, num_starts: int = NUM_STARTS) -> float:
        """What the common starting design costs."""
        return num_starts * sum(self.problem.ladder.costs)

    @property
    def default_total_cost(self) -> float:
        """Of a run, its starts included."""
        return self.start_cost() + TOP_EVALUATIONS * self.problem.ladder.costs[-1]

    def regret(self, value: float) -> float:
        """How far a value of the top falls short of the optimum."""
        if self.optimum is None:
            raise ValueError(f"the optimum of {self.name} is not known")
        return self.problem.sign * (self.optimum - value)


class DataMissingError(RuntimeError):
    """Data of a problem that cannot be had here; its text says what to do."""
