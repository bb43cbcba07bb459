"""Describe many fidelities at once, as a range of whole or real numbers."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from bmbo.problem.fidelities import Cost, Fidelity
from bmbo.problem.number_checks import LARGEST_AMOUNT, Number, is_real, is_whole, plain_scalar, short

MOST_LEVELS = 100
"""Levels of a range: as many as records and reports can show one by one."""
DIGITS = 6
"""Significant digits of a real fidelity."""


@dataclass(frozen=True)
class FidelityRange:
    """Describe a range of fidelities, such as 1 to 81 epochs; it stands where a list of `Fidelity` may stand.

    A range is a ladder of many levels. Two whole bounds give whole fidelities: all of them, or `levels` of them if
    there are more. Other bounds give `levels` real numbers.

    Args:
        low: the roughest fidelity.
        high: the one that counts.
        log: whether factors matter rather than differences, so that the levels are spread evenly over the logarithm.
        cost: of one evaluation: "proportional" to the fidelity, a function of it, or "measure", as in `Fidelity`.
        power: with a proportional cost, the power of the fidelity that the cost is proportional to.
        levels: how many levels there are at most, 2 to 100.

    Example:
        >>> fidelities = FidelityRange(1, 81, log=True)
    """

    low: Number
    high: Number
    log: bool = False
    cost: Literal["proportional", "measure"] | Callable[[Any], Any] = "proportional"
    power: Number = 1
    levels: int = MOST_LEVELS

    def __post_init__(self) -> None:
        for name in ("low", "high", "power", "levels"):
            object.__setattr__(self, name, plain_scalar(getattr(self, name)))
        for name in ("low", "high"):
            bound = getattr(self, name)
            if not is_real(bound) or not -LARGEST_AMOUNT <= bound <= LARGEST_AMOUNT:
                raise ValueError(f"{name} of a range of fidelities must be a finite number, got {short(bound)}")
        if not self.low < self.high:
            raise ValueError(
                f"a range of fidelities goes from the roughest to the one that counts, from a lower to a higher "
                f"number, got {short(self.low)} to {short(self.high)}; give others as a list of bmbo.Fidelity"
            )
        if not isinstance(self.log, bool):
            raise TypeError(f"log must be True or False, got {short(self.log)}")
        if self.log and self.low <= 0:
            raise ValueError(f"log=True needs fidelities above 0, got low={short(self.low)}")
        if not is_whole(self.levels) or not 2 <= self.levels <= MOST_LEVELS:
            raise ValueError(f"levels must be a whole number from 2 to {MOST_LEVELS}, got {short(self.levels)}")
        self._check_cost()

    def _check_cost(self) -> None:
        if not is_real(self.power) or not 0 < self.power < math.inf:
            raise ValueError(f"power must be a positive number, got {short(self.power)}")
        if self.cost == "proportional":
            if self.low <= 0:
                raise ValueError(
                    f"a cost in proportion to the fidelity needs fidelities above 0, got low={short(self.low)}; give "
                    "cost a function of the fidelity"
                )
        elif self.cost != "measure" and not callable(self.cost):
            raise TypeError(
                f'cost of a range must be "proportional", "measure" or a function of the fidelity, got '
                f"{short(self.cost)}"
            )
        if self.cost != "proportional" and self.power != 1:
            raise ValueError(f'power belongs to cost="proportional", got power={short(self.power)} with another cost')

    @property
    def values(self) -> tuple[Number, ...]:
        """Return the fidelities, the roughest first; the first and the last are the bounds."""
        steps = [place / (self.levels - 1) for place in range(self.levels)]
        if self.log:
            spread = [self.low * (self.high / self.low) ** step for step in steps]
        else:
            spread = [self.low + (self.high - self.low) * step for step in steps]
        if not (is_whole(self.low) and is_whole(self.high)):
            inner = [float(f"{value:.{DIGITS}g}") for value in spread[1:-1]]
            between = {value for value in inner if self.low < value < self.high}
            return (float(self.low), *sorted(between), float(self.high))
        if self.high - self.low < self.levels:
            return tuple(range(self.low, self.high + 1))
        return tuple(sorted({self.low, *(round(value) for value in spread[1:-1]), self.high}))

    def __iter__(self) -> Iterator[Fidelity]:
        """Yield the levels; raise ValueError if the function of the cost gives something that is no cost."""
        return (Fidelity(value, cost=self._cost_of(value)) for value in self.values)

    def _cost_of(self, value: Number) -> Cost:
        if self.cost == "measure":
            return "measure"
        if self.cost == "proportional":
            try:
                return float(value**self.power)
            except OverflowError:
                raise ValueError(f"fidelity {value!r} to the power of {self.power!r} is too large for a cost") from None
        assert callable(self.cost)
        return self.cost(value)
