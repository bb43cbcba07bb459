"""Decide which queries a budget allows: nothing is bought that no evaluation at the top could follow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bmbo.history import History, Query

ROUNDING = 1e-9
"""Share of a cost that may be missing because sums of costs are rounded."""


@dataclass(frozen=True)
class RunLimits:
    """Hold what a policy was told about a run, see `Budgeted`; None is no limit."""

    total_cost: float | None = None
    n_trials: int | None = None

    def remaining(self, history: History) -> "Remaining":
        """Return what may still be asked for; the cost of what is in flight is taken off."""
        costs = history.priced.ladder.costs
        budget = math.inf if self.total_cost is None else self.total_cost - history.spent - history.in_flight
        trials = math.inf if self.n_trials is None else float(self.n_trials - len(history.trials))
        return Remaining(tuple(costs), budget, trials)


@dataclass(frozen=True)
class Remaining:
    """Hold what may still be asked for.

    Attributes:
        costs: of a query at each level.
        budget: what all further queries may cost.
        trials: how many there may be.
    """

    costs: tuple[float, ...]
    budget: float
    trials: float

    def after(self, level: int) -> "Remaining":
        """Return what is left after a query at a level."""
        return replace(self, budget=self.budget - self.costs[level], trials=self.trials - 1)

    def allows(self, level: int) -> bool:
        """Return whether a query can be paid: at the top alone, below it together with an evaluation at the top."""
        top = len(self.costs) - 1
        cost, trials = (self.costs[top], 1) if level == top else (self.costs[level] + self.costs[top], 2)
        return self.trials >= trials and self.budget >= cost * (1.0 - ROUNDING)

    def allowed(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries of a batch that may be bought, in their order.

        Those at the top are paid first. One below the top is kept if an evaluation at the top can follow the whole
        batch: it would come too late for those of the batch.
        """
        left, kept = self, set[int]()
        top = len(self.costs) - 1
        # The sort is stable: within both groups the order of the batch counts.
        for place in sorted(range(len(queries)), key=lambda place: queries[place].level < top):
            if left.allows(queries[place].level):
                kept.add(place)
                left = left.after(queries[place].level)
        return [query for place, query in enumerate(queries) if place in kept]
