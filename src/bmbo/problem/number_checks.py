"""Check numbers that users give: each rule and its error message is written here, once.

NumPy scalars count as numbers. Booleans do not count, although Python treats them as whole numbers.
"""

import math
import numbers
from typing import TypeAlias, TypeGuard

Number: TypeAlias = int | float
"""Whole and real numbers. Both are named because type checks at run time treat int and float as different."""


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number and not a boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def whole_number(name: str, value: object, at_least: int = 1) -> int:
    """Return a whole number; raise ValueError, with the name of the argument, if it is too small or not whole."""
    if not is_whole(value) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {value!r}")
    return int(value)


def positive_number(name: str, value: object) -> float:
    """Return a number above zero, infinity included; raise ValueError otherwise."""
    if not is_real(value):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if not value > 0:
        raise ValueError(f"{name} must be positive, got {value!r}")
    return float(value)


def finite_amount(name: str, value: object) -> float:
    """Return a finite number of at least zero, such as a cost; raise ValueError otherwise."""
    if not is_real(value) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
    return float(value)
