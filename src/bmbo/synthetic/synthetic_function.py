"""Describe a problem with known formulas and a known optimum."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmbo.problem import Problem

Formula = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Synthetic:
    """Describe a problem with a formula for every level.

    Attributes:
        formulas: lowest level first; each maps points [n d], one column per parameter in its own unit, to values [n].
        optimum: the best value at the top level.
        optimisers: every configuration that reaches it.
    """

    name: str
    problem: Problem
    formulas: tuple[Formula, ...]
    optimum: float
    optimisers: tuple[dict[str, float], ...] = field(hash=False)

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the value of one configuration, as an objective does."""
        point = np.array([[config[name] for name in self.problem.space.names]], dtype=np.float64)
        return float(self.values(point, level)[0])

    def values(self, points: NDArray[np.float64], level: int) -> NDArray[np.float64]:
        """Return values [n] of points [n d] in the parameters' own units, columns in the order of the space's names."""
        return self.formulas[level](points)

    def regret(self, value: float) -> float:
        """Return how far a value of the top level is from the optimum; never negative except for rounding."""
        return self.problem.sign * (self.optimum - value)
