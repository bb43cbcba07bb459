"""Describe the fidelities at which the objective can be evaluated, with their costs."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, cast

from bmbo.problem.number_checks import LARGEST_AMOUNT, SMALLEST_PRICE, is_real, plain_scalar, short

LEAST_RISE = 1.01
"""Factor between the costs of two levels, where training continues and measured costs do not rise."""

FidelityValue = int | float | str | bool
Cost = int | float | Literal["measure"]

_EXAMPLE = "[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]"


@dataclass(frozen=True)
class Fidelity:
    """Describe one level at which the objective can be evaluated.

    Args:
        value: what the objective receives, such as a number of epochs or the name of a solver; any JSON scalar.
        cost: price of one evaluation, in any unit; only ratios between levels matter. With "measure", the cost is
            learnt from the durations of the trials, and the unit of all costs is the second.
        name: how reports call the level; the value by default.

    Example:
        >>> fidelities = [Fidelity(10, cost=1), Fidelity(100, cost=10, name="full")]
    """

    value: FidelityValue
    cost: Cost
    name: str = ""

    def __post_init__(self) -> None:
        # Scalars of NumPy: the record and the objective get plain ones.
        object.__setattr__(self, "value", plain_scalar(self.value))
        object.__setattr__(self, "cost", plain_scalar(self.cost))
        if not isinstance(self.value, int | float | str | bool):
            raise TypeError(f"a fidelity's value must be a number, a string or a boolean, got {short(self.value)}")
        if isinstance(self.value, int | float) and not -LARGEST_AMOUNT <= self.value <= LARGEST_AMOUNT:
            raise ValueError(
                f"a fidelity's value must lie between {-LARGEST_AMOUNT:g} and {LARGEST_AMOUNT:g}, "
                f"got {short(self.value)}"
            )
        if self.cost != "measure":
            if not is_real(self.cost):
                raise TypeError(f'fidelity {self.value!r}: cost must be a number or "measure", got {short(self.cost)}')
            if not 0 < self.cost < math.inf:
                raise ValueError(
                    f"fidelity {short(self.value)}: cost must be positive and finite, got {short(self.cost)}"
                )
            if not SMALLEST_PRICE <= self.cost <= LARGEST_AMOUNT:
                raise ValueError(
                    f"fidelity {short(self.value)}: cost must lie between {SMALLEST_PRICE:g} and {LARGEST_AMOUNT:g}, "
                    f"got {short(self.cost)}; only ratios of costs matter"
                )
            object.__setattr__(self, "cost", float(self.cost))
        object.__setattr__(self, "name", self.name or str(self.value))


@dataclass(frozen=True)
class Ladder:
    """Hold the fidelities from the roughest to the target, which is the last; a single one needs no list."""

    fidelities: tuple[Fidelity, ...]

    def __init__(self, fidelities: Iterable[Fidelity] | Fidelity) -> None:
        if not isinstance(cast(object, fidelities), Fidelity | Iterable):
            raise TypeError(f"fidelities must be a list such as {_EXAMPLE}, got {fidelities!r}")
        listed = (fidelities,) if isinstance(fidelities, Fidelity) else tuple(fidelities)
        object.__setattr__(self, "fidelities", listed)
        if not self.fidelities:
            raise ValueError("at least one fidelity is needed; for a plain problem give [Fidelity('full', cost=1)]")
        for fidelity in self.fidelities:
            if not isinstance(fidelity, Fidelity):
                raise TypeError(f"fidelities must be bmbo.Fidelity objects, got {fidelity!r}; write {_EXAMPLE}")
        names = [fidelity.name for fidelity in self.fidelities]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"fidelity names must differ, {', '.join(map(repr, twice))} given more than once")
        if len({fidelity.cost == "measure" for fidelity in self.fidelities}) > 1:
            costs = ", ".join(f"{fidelity.name}: {fidelity.cost}" for fidelity in self.fidelities)
            raise ValueError(f"costs must be given for all fidelities or measured for all, got {costs}")

    @property
    def num_levels(self) -> int:
        """Return the number of fidelities: the paper's M."""
        return len(self.fidelities)

    @property
    def top(self) -> int:
        """Return the level of the target fidelity."""
        return len(self.fidelities) - 1

    @property
    def costs(self) -> tuple[float, ...]:
        """Return the price of one evaluation at each level: the paper's lambda."""
        if self.measured:
            raise ValueError("these costs are measured: history.priced is the problem with what is known of them")
        return tuple(float(fidelity.cost) for fidelity in self.fidelities)

    @property
    def measured(self) -> bool:
        """Return whether costs are learnt from durations."""
        return self.fidelities[0].cost == "measure"

    @property
    def rises(self) -> bool:
        """Return whether each level costs more than the one below it."""
        return all(low < high for low, high in pairwise(self.costs))

    def rising(self) -> "Ladder":
        """Return this ladder with costs that rise: measured ones may not, because they are means of few durations."""
        costs = list(self.costs)
        for level in range(1, self.num_levels):
            costs[level] = max(costs[level], costs[level - 1] * LEAST_RISE)
        return Ladder(replace(fidelity, cost=cost) for fidelity, cost in zip(self.fidelities, costs, strict=True))

    def priced(self, seconds: Mapping[int, float]) -> "Ladder":
        """Return this ladder with costs from the mean durations of some levels.

        A level without a duration gets a price in proportion to its value, or the mean price if its value is no number.
        """
        known = dict(seconds)
        sizes = [_size(fidelity.value) for fidelity in self.fidelities]
        rates = [mean / size for level, mean in known.items() if (size := sizes[level]) is not None]
        mean = sum(known.values()) / len(known) if known else 1.0
        rate = sum(rates) / len(rates) if rates else None
        guesses = [mean if rate is None or size is None else rate * size for size in sizes]
        return Ladder(
            replace(fidelity, cost=known.get(level, guesses[level])) for level, fidelity in enumerate(self.fidelities)
        )

    def __getitem__(self, level: int) -> Fidelity:
        return self.fidelities[level]


def _size(value: object) -> float | None:
    """Return a fidelity's value as an amount, or None if it is not a positive finite number."""
    if not is_real(value) or not 0 < value < math.inf:
        return None
    return float(value)
