"""The kinds of parameters, each with its way to the unit cube and back."""

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, TypeVar, cast

import numpy as np

Choice = str | int | float | bool | None
ArrayT = TypeVar("ArrayT")

MAX_VALUES = 2**40
"""Most values of a discrete parameter: in float64 the rounding of exp and log then stays below 1 % of a bin."""


def _number(kind: str, field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{kind}: {field} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{kind}: {field} must be finite, got {value!r}")
    return number


def _integer(kind: str, field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{kind}: {field} must be an integer, got {value!r}")
    return int(value)


@dataclass(frozen=True)
class _Grid:
    """Ordered values as bins of one coordinate, each represented inside its bin.

    The coordinate is stretched to [0, num] so that bin i is [i, i + 1]: evenly, or with `base` by an exponential, so
    that bins are even in the logarithm of base + i.
    """

    num: int
    base: float | None = None

    @property
    def length(self) -> float:
        """Length of the coordinate in logarithms; 0 when it is even."""
        return 0.0 if self.base is None else math.log1p(self.num / self.base)

    def index(self, xp: Any, unit: Any) -> Any:
        """The bin of a coordinate in [0, 1], as a float."""
        # expm1 and log1p: bins stay apart when the range is narrow against its lower bound.
        stretched = unit * self.num if self.base is None else self.base * xp.expm1(unit * self.length)
        return xp.clip(xp.floor(stretched), 0, self.num - 1)

    def centre(self, xp: Any, index: Any) -> Any:
        """The coordinate that represents a bin."""
        # Products with reciprocals: a compiler turns quotients into these, and jitted and plain results should agree.
        if self.base is None:
            return (index + 0.5) * (1 / self.num)
        return xp.log1p((index + 0.5) * (1 / self.base)) * (1 / self.length)

    def snap(self, xp: Any, unit: Any) -> Any:
        """The coordinate of the value that is really run; bins finer than the dtype's rounding are left alone."""
        unit = xp.clip(unit, 0, 1)
        index = self.index(xp, unit)
        # Rounding moves a stretched centre by about eps (1 + length) (index + 1): an eighth of a bin leaves it there.
        finest = 1 / (8 * float(xp.finfo(unit.dtype).eps) * (1 + self.length))
        return xp.where(index < finest, self.centre(xp, index), unit)

    def encode(self, index: int) -> tuple[float, ...]:
        """The coordinate of one bin."""
        return (float(self.centre(np, float(index))),)

    def decode(self, unit: Sequence[float]) -> int:
        """The bin of one coordinate."""
        return int(self.index(np, min(max(unit[0], 0.0), 1.0)))


@dataclass(frozen=True)
class Float:
    """A real parameter.

    Args:
        low, high: bounds, both included.
        log: search evenly in the logarithm.
        step: only low, low + step, low + 2 step, ... up to high.
    """

    low: int | float
    high: int | float
    _: KW_ONLY
    log: bool = False
    step: int | float | None = None

    dim = 1

    def __post_init__(self) -> None:
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
        # Through the shortest text: steps of 0.1 meet 0.3 exactly, as the user wrote it.
        return Decimal(str(value))

    def _value(self, index: int) -> float:
        return float(self._decimal(self.low) + index * self._decimal(self.step))

    def encode(self, value: object) -> tuple[float, ...]:
        """The coordinate of a value."""
        number = _number("Float", "value", value)
        # What a user computes as low + i * step may differ from it by rounding, also at the last one.
        slack = 1e-6 * (self.step or 0.0)
        if not self.low - slack <= number <= self.high + slack:
            raise ValueError(f"Float: value must lie between {self.low:g} and {self.high:g}, got {value!r}")
        grid = self._grid
        if grid is None or self.step is None:
            if self.log:
                # log1p and expm1: bounds that differ in the last digits only still have a logarithm between them.
                return (math.log1p((number - self.low) / self.low) / self._log_length,)
            return ((number - self.low) / (self.high - self.low),)
        index = min(round((number - self.low) / self.step), grid.num - 1)
        if abs(number - self._value(index)) > slack:
            raise ValueError(f"Float: value must be {self.low:g} plus a multiple of {self.step:g}, got {value!r}")
        return grid.encode(index)

    def decode(self, unit: Sequence[float]) -> float:
        """The value of a coordinate."""
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
        """The coordinate that is really run."""
        grid = self._grid
        return xp.clip(unit, 0, 1) if grid is None else grid.snap(xp, unit)


@dataclass(frozen=True)
class Int:
    """An integer parameter.

    Args:
        low, high: bounds, both included.
        log: search evenly in the logarithm.
        step: only low, low + step, low + 2 step, ... up to high.
    """

    low: int
    high: int
    _: KW_ONLY
    log: bool = False
    step: int = 1

    dim = 1

    def __post_init__(self) -> None:
        low, high = _integer("Int", "low", self.low), _integer("Int", "high", self.high)
        step = _integer("Int", "step", self.step)
        for field, value in (("low", low), ("high", high), ("step", step)):
            object.__setattr__(self, field, value)
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
        # A bin in the logarithm reaches from i - 0.5 to i + 0.5; a constant sits in the middle of its coordinate.
        return _Grid(num, self.low - 0.5 if self.log and num > 1 else None)

    def encode(self, value: object) -> tuple[float, ...]:
        """The coordinate of a value."""
        number = _integer("Int", "value", value)
        if not self.low <= number <= self.high:
            raise ValueError(f"Int: value must lie between {self.low} and {self.high}, got {value!r}")
        index, off = divmod(number - self.low, self.step)
        if off:
            raise ValueError(f"Int: value must be {self.low} plus a multiple of {self.step}, got {value!r}")
        return self._grid.encode(index)

    def decode(self, unit: Sequence[float]) -> int:
        """The value of a coordinate."""
        return self.low + self.step * self._grid.decode(unit)

    def snap(self, xp: Any, unit: Any) -> Any:
        """The coordinate that is really run."""
        return self._grid.snap(xp, unit)


def _plain(value: object) -> object:
    return cast(Any, value).item() if isinstance(value, np.generic) else value


def _same(one: object, other: object) -> bool:
    """Equality that tells True from 1, as JSON does."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


@dataclass(frozen=True)
class Categorical:
    """One of several choices.

    Args:
        choices: strings, finite numbers, booleans or None; they may be mixed.
        ordered: neighbours are alike, as in small, medium, large: one coordinate instead of one a choice.
    """

    choices: tuple[Choice, ...]
    ordered: bool

    def __init__(self, choices: Iterable[Choice], *, ordered: bool = False) -> None:
        if isinstance(choices, str):
            raise TypeError(f"Categorical: choices must be a list, got the string {choices!r}")
        plain = tuple(_plain(choice) for choice in choices)
        if not plain:
            raise ValueError("Categorical: at least one choice is needed, got none")
        for place, choice in enumerate(plain):
            if choice is not None and not isinstance(choice, str | int | float | bool):
                raise TypeError(f"Categorical: a choice must be a string, number, boolean or None, got {choice!r}")
            if isinstance(choice, float) and not math.isfinite(choice):
                raise ValueError(f"Categorical: a choice must be finite, got {choice!r}")
            if any(_same(choice, earlier) for earlier in plain[:place]):
                raise ValueError(f"Categorical: choices must differ, got {choice!r} more than once")
        object.__setattr__(self, "choices", plain)
        object.__setattr__(self, "ordered", ordered)

    @property
    def _grid(self) -> _Grid | None:
        # Two choices are always ordered: a second coordinate would say nothing.
        return _Grid(len(self.choices)) if self.ordered or len(self.choices) <= 2 else None

    @property
    def dim(self) -> int:
        """Coordinates it takes in the cube."""
        return len(self.choices) if self._grid is None else 1

    def encode(self, value: object) -> tuple[float, ...]:
        """The coordinates of a choice."""
        found = [place for place, choice in enumerate(self.choices) if _same(_plain(value), choice)]
        if not found:
            raise ValueError(f"Categorical: value must be one of {list(self.choices)}, got {value!r}")
        if self._grid is not None:
            return self._grid.encode(found[0])
        return tuple(float(place == found[0]) for place in range(len(self.choices)))

    def decode(self, unit: Sequence[float]) -> Choice:
        """The choice of the coordinates: the first of the largest."""
        return self.choices[int(np.argmax(unit)) if self._grid is None else self._grid.decode(unit)]

    def snap(self, xp: Any, unit: Any) -> Any:
        """The coordinates that are really run: a vertex of the cube."""
        if self._grid is not None:
            return self._grid.snap(xp, unit)
        places = xp.reshape(xp.arange(self.dim), (1,) * (unit.ndim - 1) + (self.dim,))
        return xp.astype(places == xp.argmax(unit, axis=-1, keepdims=True), unit.dtype)


Parameter = Float | Int | Categorical
