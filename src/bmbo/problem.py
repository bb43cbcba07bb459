"""What is optimised: a space, a ladder of fidelities with costs, and a direction."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bmbo.space import Space


@dataclass(frozen=True)
class Fidelity:
    """One level at which the objective can be evaluated.

    Args:
        value: what the objective receives (epochs, trees, a solver's name): any JSON scalar.
        cost: price of one evaluation, in any unit; only ratios between levels matter.
        name: what reports call it; the value by default.
    """

    value: int | float | str | bool
    cost: int | float
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.value, int | float | str | bool):
            raise TypeError(f"a fidelity's value must be a number, a string or a boolean, got {self.value!r}")
        if isinstance(self.cost, bool) or not isinstance(self.cost, int | float):
            raise TypeError(f"fidelity {self.value!r}: cost must be a number, got {self.cost!r}")
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
        return tuple(fidelity.cost for fidelity in self.fidelities)

    def __getitem__(self, level: int) -> Fidelity:
        return self.fidelities[level]


@dataclass(frozen=True)
class Problem:
    """A black box to optimise at the top of its ladder."""

    space: Space
    ladder: Ladder
    maximise: bool = False

    @property
    def sign(self) -> float:
        """Factor that makes larger better."""
        return 1.0 if self.maximise else -1.0
