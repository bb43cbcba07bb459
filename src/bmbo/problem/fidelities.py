"""Fidelities at which the objective can be evaluated, with their costs."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

Number = int | float
FidelityValue = int | float | str | bool
Cost = int | float | Literal["measure"]


@dataclass(frozen=True)
class Fidelity:
    """One level at which the objective can be evaluated.

    Args:
        value: what the objective receives (epochs, trees, a solver's name): any JSON scalar.
        cost: price of one evaluation, in any unit; only ratios between levels matter. "measure" learns it from the
            trials' own durations: the unit of all costs is then the second.
        name: what reports call it; the value by default.
    """

    value: FidelityValue
    cost: Cost
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.value, int | float | str | bool):
            raise TypeError(f"a fidelity's value must be a number, a string or a boolean, got {self.value!r}")
        if self.cost != "measure":
            if isinstance(self.cost, bool) or not isinstance(self.cost, int | float):
                raise TypeError(f'fidelity {self.value!r}: cost must be a number or "measure", got {self.cost!r}')
            if not (math.isfinite(self.cost) and self.cost > 0):
                raise ValueError(f"fidelity {self.value!r}: cost must be positive and finite, got {self.cost!r}")
            object.__setattr__(self, "cost", float(self.cost))
        object.__setattr__(self, "name", self.name or str(self.value))


@dataclass(frozen=True)
class Ladder:
    """The fidelities from the roughest to the target; the last is the one that counts."""

    fidelities: tuple[Fidelity, ...]

    def __init__(self, fidelities: Iterable[Fidelity]) -> None:
        object.__setattr__(self, "fidelities", tuple(fidelities))
        if not self.fidelities:
            raise ValueError("at least one fidelity is needed; for a plain problem give [Fidelity('full', cost=1)]")
        for fidelity in self.fidelities:
            if not isinstance(fidelity, Fidelity):
                raise TypeError(f"fidelities must be bmbo.Fidelity objects, got {fidelity!r}")
        names = [fidelity.name for fidelity in self.fidelities]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"fidelity names must differ, {', '.join(map(repr, twice))} given more than once")
        if len({fidelity.cost == "measure" for fidelity in self.fidelities}) > 1:
            costs = ", ".join(f"{fidelity.name}: {fidelity.cost}" for fidelity in self.fidelities)
            raise ValueError(f"costs must be given for all fidelities or measured for all, got {costs}")

    @property
    def num_levels(self) -> int:
        """How many fidelities there are: the paper's M."""
        return len(self.fidelities)

    @property
    def top(self) -> int:
        """Level of the target fidelity."""
        return len(self.fidelities) - 1

    @property
    def costs(self) -> tuple[float, ...]:
        """Price of one evaluation at each level: the paper's lambda."""
        if self.measured:
            raise ValueError("these costs are measured: history.priced is the problem with what is known of them")
        return tuple(float(fidelity.cost) for fidelity in self.fidelities)

    @property
    def measured(self) -> bool:
        """Whether costs are learnt from durations."""
        return self.fidelities[0].cost == "measure"

    def priced(self, seconds: Mapping[int, float]) -> "Ladder":
        """This ladder at the mean durations of some of its levels; the other levels are priced like these."""
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
    """A fidelity's value as an amount, where it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        return None
    return float(value)
