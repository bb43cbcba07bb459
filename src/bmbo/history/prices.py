"""Say what a query costs, which depends on what of the same configuration is finished where training continues."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Prices:
    """Hold the costs of the levels, and what can be gone on from.

    Attributes:
        costs: of the whole training up to each level, the roughest first.
        resumable: for each point with a checkpoint: its levels, each with the number of the trial that left it. It is
            empty where training does not continue.
    """

    costs: tuple[float, ...]
    resumable: Mapping[tuple[float, ...], Mapping[int, int]] = field(
        default_factory=dict[tuple[float, ...], Mapping[int, int]]
    )

    def source_level(self, unit: tuple[float, ...], level: int) -> int | None:
        """Return the highest level below a level from which a point can go on; None if it must begin anew."""
        return max((below for below in self.resumable.get(unit, ()) if below < level), default=None)

    def source(self, unit: tuple[float, ...], level: int) -> int | None:
        """Return the number of the trial from which a query goes on; None if it must begin anew."""
        below = self.source_level(unit, level)
        return None if below is None else self.resumable[unit][below]

    def of(self, unit: tuple[float, ...], level: int) -> float:
        """Return the cost of a query: above 0, and at most the cost of its level."""
        below = self.source_level(unit, level)
        return self.costs[level] if below is None else self.costs[level] - self.costs[below]

    @property
    def least(self) -> float:
        """Return the cost of the cheapest query that is possible now."""
        steps = [self.of(unit, level) for unit in self.resumable for level in range(1, len(self.costs))]
        return min([*self.costs, *steps])

    @property
    def least_at_top(self) -> float:
        """Return the cost of the cheapest query at the top that is possible now."""
        top = len(self.costs) - 1
        return min([self.costs[top], *(self.of(unit, top) for unit in self.resumable)])
