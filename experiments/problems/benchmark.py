"""Describe a problem of the comparisons: its objective, its optimum and its costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bmbo

NUM_STARTS = 10
"""Random points per level that methods begin from: the number of the paper."""

TOP_EVALUATIONS = 30
"""Evaluations at the top that the default total cost pays for, after the starts. It is the number of the first
comparison with peers on Branin (a cost of 1,500, at 50 for each evaluation)."""


def _nothing() -> None:
    """Do nothing, for a problem that needs no data."""


@dataclass(frozen=True)
class Benchmark:
    """Hold a problem with its objective.

    Attributes:
        name: the name on the command line.
        problem: what methods are told: the space, the levels and the direction.
        evaluate: returns the value of a configuration at a level; deterministic.
        optimum: the best value at the top, or the best known one; None if it is not known.
        source: the publication.
        prepare: loads the data, or raises `DataMissingError`; called once before any run.
        exact: returns the value of a configuration at the top without noise, which judges what a method found; None if
            `evaluate` has no noise.
        many_at_top: returns the values of many configurations at the top at once, without noise; None if that is no
            quicker than one by one. Values may differ from those of `evaluate` by rounding.
    """

    name: str
    problem: bmbo.Problem
    evaluate: Callable[[Mapping[str, Any], int], float]
    optimum: float | None
    source: str = ""
    prepare: Callable[[], object] = _nothing
    exact: Callable[[Mapping[str, Any]], float] | None = None
    many_at_top: Callable[[Sequence[Mapping[str, Any]]], list[float]] | None = None

    def exact_top(self, config: Mapping[str, Any]) -> float:
        """Return the value of a configuration at the top without noise."""
        if self.exact is not None:
            return self.exact(config)
        return self.evaluate(config, self.problem.ladder.top)

    def start_cost(self, num_starts: int = NUM_STARTS) -> float:
        """Return the cost of the common starting design."""
        return num_starts * sum(self.problem.ladder.costs)

    @property
    def default_total_cost(self) -> float:
        """Return the default cost of a run, starts included."""
        return self.start_cost() + TOP_EVALUATIONS * self.problem.ladder.costs[-1]

    def regret(self, value: float) -> float:
        """Return the distance of a value at the top to the optimum. Raise `ValueError` if no optimum is known."""
        if self.optimum is None:
            raise ValueError(f"the optimum of {self.name} is not known")
        return self.problem.sign * (self.optimum - value)


class DataMissingError(RuntimeError):
    """Say which data or package a problem lacks and what to do."""
