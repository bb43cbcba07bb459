"""Describe the kinds of parameters, and map the values of each kind to the unit cube and back."""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np

from bmbo.problem.conditions import Choice, When, checked_when, same_choice
from bmbo.problem.likely import Likely, checked_prior
from bmbo.problem.number_checks import is_real, is_whole, plain_scalar

ArrayT = TypeVar("ArrayT")

MAX_VALUES = 2**40
"""Largest number of values of a discrete parameter. Up to here, float64 rounds exp and log by less than 1 % of a
bin."""


def _number(kind: str, field: str, value: object) -> float:
    if not is_real(value):
        raise TypeError(f"{kind}: {field} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{kind}: {field} must be finite, got {value!r}")
    return number


def _integer(kind: str, field: str, value: object) -> int:
    if not is_whole(value):
        raise TypeError(f"{kind}: {field} must be an integer, got {value!r}")
    return int(value)


@dataclass(frozen=True)
class _Grid:
    """Place ordered values on one coordinate: each value has a bin, and a point inside the bin stands for it.

    The coordinate is stretched to [0, num], so that bin i is [i, i + 1]. Without `base` the bins are equally wide. With
    `base` they are equally wide in the logarithm of base + i.
    """

    num: int
    base: float | None = None

    @property
    def length(self) -> float:
        """Return the length of the coordinate in logarithms; 0 if the bins are equally wide."""
        return 0.0 if self.base is None else math.log1p(self.num / self.base)

    def index(self, xp: Any, unit: Any) -> Any:
        """Return the bin of a coordinate in [0, 1], as a float."""
        # expm1 and log1p keep the bins apart where the range is narrow compared with its lower bound.
        stretched = unit * self.num if self.base is None else self.base * xp.expm1(unit * self.length)
        return xp.clip(xp.floor(stretched), 0, self.num - 1)

    def centre(self, xp: Any, index: Any) -> Any:
        """Return the coordinate that stands for a bin."""
        # Products with reciprocals: the compiler makes them from quotients, and results should agree inside and outside
        # jit.
        if self.base is None:
            return (index + 0.5) * (1 / self.num)
        return xp.log1p((index + 0.5) * (1 / self.base)) * (1 / self.length)

    def snap(self, xp: Any, unit: Any) -> Any:
        """Return the coordinate of the value that is run.

        A coordinate stays as it is where the bins are finer than the rounding of the dtype.
        """
        unit = xp.clip(unit, 0, 1)
        index = self.index(xp, unit)
        # Rounding moves a stretched centre by about eps (1 + length) (index + 1). An eighth of a bin keeps it inside.
        finest = 1 / (8 * float(xp.finfo(unit.dtype).eps) * (1 + self.length))
        return xp.where(index < finest, self.centre(xp, index), unit)

    def encode(self, index: int) -> tuple[float, ...]:
        """Return the coordinate of one bin."""
        return (float(self.centre(np, float(index))),)

    def decode(self, unit: Sequence[float]) -> int:
        """Return the bin of one coordinate."""
        return int(self.index(np, min(max(unit[0], 0.0), 1.0)))


@dataclass(frozen=True)
class Float:
    """Describe a real parameter.

    Args:
        low: the lower bound, included.
        high: the upper bound, included.
        log: search evenly in the logarithm.
        step: only low, low + step, low + 2 step, ... up to high.
        when: the values of other parameters at which this one exists, as in {"booster": ["tree", "dart"]}.
        prior: where good values probably are.
    """

    low: int | float
    high: int | float
    _: KW_ONLY
    log: bool = False
    step: int | float | None = None
    when: Mapping[str, Any] | When | None = field(default=(), repr=False)
    prior: Likely | Mapping[str, Any] | None = field(default=None, repr=False)

    dim = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when("Float", self.when))
        object.__setattr__(self, "prior", checked_prior("Float", self.prior))
        low, high = _number("Float", "low", self.low), _number("Float", "high", self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if low >= high:
            raise ValueError(f"Float: low must be below high, got low={low:g}, high={high:g}")
        if self.log and low <= 0:
            raise ValueError(f"Float: with log=True low must be above 0, got low={low:g}")
        if not math.isfinite((high - low) / (low if self.log else 1.0)):
            raise ValueError(f"Float: the range is too wide for float64, got low={low:g}, high={high:g}")
        if self.step is None:
            return
        step = _number("Float", "step", self.step)
        object.__setattr__(self, "step", step)
        if self.log:
            raise ValueError(f"Float: log=True and a step exclude each other, got step={step:g}")
        if step > 0 and (high - low) / step >= MAX_VALUES:
            raise ValueError(f"Float: step={step:g} gives more than {MAX_VALUES} values; leave the step out")
        if step <= 0 or self._decimal(low) + self._decimal(step) > self._decimal(high):
            raise ValueError(f"Float: step must be above 0 and at most high - low = {high - low:g}, got step={step:g}")

    @property
    def _grid(self) -> _Grid | None:
        if self.step is None:
            return None
        return _Grid(int((self._decimal(self.high) - self._decimal(self.low)) // self._decimal(self.step)) + 1)

    @property
    def _log_length(self) -> float:
        return math.log1p((self.high - self.low) / self.low)

    @staticmethod
    def _decimal(value: float | None) -> Decimal:
        # By way of the shortest text: steps of 0.1 then meet 0.3 exactly, as the user wrote it.
        return Decimal(str(value))

    def _value(self, index: int) -> float:
        return float(self._decimal(self.low) + index * self._decimal(self.step))

    def encode(self, value: object) -> tuple[float, ...]:
        """Return the coordinate of a value."""
        number = _number("Float", "value", value)
        # A user may compute low + i * step, which differs from the exact value by rounding, also at the last step.
        slack = 1e-6 * (self.step or 0.0)
        if not self.low - slack <= number <= self.high + slack:
            raise ValueError(f"Float: value must lie between {self.low:g} and {self.high:g}, got {value!r}")
        grid = self._grid
        if grid is None or self.step is None:
            if self.log:
                # log1p and expm1 are exact for bounds that differ in their last digits only.
                return (math.log1p((number - self.low) / self.low) / self._log_length,)
            return ((number - self.low) / (self.high - self.low),)
        index = min(round((number - self.low) / self.step), grid.num - 1)
        if abs(number - self._value(index)) > slack:
            raise ValueError(f"Float: value must be {self.low:g} plus a multiple of {self.step:g}, got {value!r}")
        return grid.encode(index)

    def decode(self, unit: Sequence[float]) -> float:
        """Return the value of a coordinate."""
        grid = self._grid
        if grid is not None:
            return self._value(grid.decode(unit))
        share = min(max(float(unit[0]), 0.0), 1.0)
        if share in (0.0, 1.0):
            return self.high if share else self.low
        if self.log:
            value = self.low + self.low * math.expm1(share * self._log_length)
        else:
            value = self.low + share * (self.high - self.low)
        return min(max(value, self.low), self.high)

    def snap(self, xp: Any, unit: Any) -> Any:
        """Return the coordinate that is run."""
        grid = self._grid
        return xp.clip(unit, 0, 1) if grid is None else grid.snap(xp, unit)


@dataclass(frozen=True)
class Int:
    """Describe an integer parameter.

    Args:
        low: the lower bound, included.
        high: the upper bound, included.
        log: search evenly in the logarithm.
        step: only low, low + step, low + 2 step, ... up to high.
        when: the values of other parameters at which this one exists, as in {"booster": ["tree", "dart"]}.
        prior: where good values probably are.
    """

    low: int
    high: int
    _: KW_ONLY
    log: bool = False
    step: int = 1
    when: Mapping[str, Any] | When | None = field(default=(), repr=False)
    prior: Likely | Mapping[str, Any] | None = field(default=None, repr=False)

    dim = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when("Int", self.when))
        object.__setattr__(self, "prior", checked_prior("Int", self.prior))
        low, high = _integer("Int", "low", self.low), _integer("Int", "high", self.high)
        step = _integer("Int", "step", self.step)
        for name, value in (("low", low), ("high", high), ("step", step)):
            object.__setattr__(self, name, value)
        if low > high:
            raise ValueError(f"Int: low must not be above high, got low={low}, high={high}")
        if self.log and low <= 0:
            raise ValueError(f"Int: with log=True low must be above 0, got low={low}")
        if self.log and step != 1:
            raise ValueError(f"Int: log=True and a step exclude each other, got step={step}")
        if not 0 < step <= max(high - low, 1):
            raise ValueError(f"Int: step must be above 0 and at most high - low = {high - low}, got step={step}")
        if (high if self.log else (high - low) // step + 1) > MAX_VALUES:
            raise ValueError(
                f"Int: more than {MAX_VALUES} values, got low={low}, high={high}; use a Float and round it"
            )

    @property
    def _grid(self) -> _Grid:
        num = (self.high - self.low) // self.step + 1
        # In the logarithm, a bin reaches from i - 0.5 to i + 0.5. A single value lies in the middle of its coordinate.
        return _Grid(num, self.low - 0.5 if self.log and num > 1 else None)

    def encode(self, value: object) -> tuple[float, ...]:
        """Return the coordinate of a value."""
        number = _integer("Int", "value", value)
        if not self.low <= number <= self.high:
            raise ValueError(f"Int: value must lie between {self.low} and {self.high}, got {value!r}")
        index, off = divmod(number - self.low, self.step)
        if off:
            raise ValueError(f"Int: value must be {self.low} plus a multiple of {self.step}, got {value!r}")
        return self._grid.encode(index)

    def decode(self, unit: Sequence[float]) -> int:
        """Return the value of a coordinate."""
        return self.low + self.step * self._grid.decode(unit)

    def snap(self, xp: Any, unit: Any) -> Any:
        """Return the coordinate that is run."""
        return self._grid.snap(xp, unit)


@dataclass(frozen=True)
class Categorical:
    """Describe a choice among several values.

    Args:
        choices: strings, finite numbers, booleans or None; they may be mixed.
        ordered: whether neighbours are alike, as in small, medium, large. The parameter then takes one coordinate
            instead of one coordinate per choice.
        when: the values of other parameters at which this one exists, as in {"booster": ["tree", "dart"]}.
        prior: where good values probably are.
    """

    choices: tuple[Choice, ...]
    ordered: bool
    when: Mapping[str, Any] | When | None = field(default=(), repr=False)
    prior: Likely | Mapping[str, Any] | None = field(default=None, repr=False)

    def __init__(
        self,
        choices: Iterable[Choice],
        *,
        ordered: bool = False,
        when: Mapping[str, Any] | When | None = None,
        prior: Likely | Mapping[str, Any] | None = None,
    ) -> None:
        given: object = choices
        if isinstance(given, str):
            raise TypeError(f"Categorical: choices must be a list, got the string {choices!r}")
        # The order of a set differs from process to process, so that a study would not be found again.
        if isinstance(given, AbstractSet | Mapping) or not isinstance(given, Iterable):
            raise TypeError(
                f"Categorical: choices must be a list, whose order is fixed, such as ['a', 'b'], got {choices!r}"
            )
        plain = tuple(plain_scalar(choice) for choice in choices)
        if not plain:
            raise ValueError("Categorical: at least one choice is needed, got none")
        for place, choice in enumerate(plain):
            if choice is not None and not isinstance(choice, str | int | float | bool):
                raise TypeError(f"Categorical: a choice must be a string, number, boolean or None, got {choice!r}")
            if isinstance(choice, float) and not math.isfinite(choice):
                raise ValueError(f"Categorical: a choice must be finite, got {choice!r}")
            if any(same_choice(choice, earlier) for earlier in plain[:place]):
                raise ValueError(f"Categorical: choices must differ, got {choice!r} more than once")
        object.__setattr__(self, "choices", plain)
        object.__setattr__(self, "ordered", ordered)
        object.__setattr__(self, "when", checked_when("Categorical", when))
        object.__setattr__(self, "prior", checked_prior("Categorical", prior))

    @property
    def _grid(self) -> _Grid | None:
        # Two choices are always ordered, because a second coordinate would add nothing.
        return _Grid(len(self.choices)) if self.ordered or len(self.choices) <= 2 else None

    @property
    def dim(self) -> int:
        """Return the number of coordinates of the parameter in the cube."""
        return len(self.choices) if self._grid is None else 1

    def encode(self, value: object) -> tuple[float, ...]:
        """Return the coordinates of a choice."""
        found = [place for place, choice in enumerate(self.choices) if same_choice(plain_scalar(value), choice)]
        if not found:
            raise ValueError(f"Categorical: value must be one of {list(self.choices)}, got {value!r}")
        if self._grid is not None:
            return self._grid.encode(found[0])
        return tuple(float(place == found[0]) for place in range(len(self.choices)))

    def decode(self, unit: Sequence[float]) -> Choice:
        """Return the choice with the largest coordinate, the first one if several are equal."""
        return self.choices[int(np.argmax(unit)) if self._grid is None else self._grid.decode(unit)]

    def snap(self, xp: Any, unit: Any) -> Any:
        """Return the coordinates that are run: a vertex of the cube."""
        if self._grid is not None:
            return self._grid.snap(xp, unit)
        places = xp.reshape(xp.arange(self.dim), (1,) * (unit.ndim - 1) + (self.dim,))
        return xp.astype(places == xp.argmax(unit, axis=-1, keepdims=True), unit.dtype)


Parameter = Float | Int | Categorical
