"""Check numbers that users give: each rule and its error message is written here, once.

NumPy scalars count as numbers. Booleans do not count, although Python treats them as whole numbers.
"""

import math
import numbers
from typing import Any, TypeAlias, TypeGuard

import numpy as np

Number: TypeAlias = int | float
"""Whole and real numbers. Both are named because type checks at run time treat int and float as different."""

LARGEST_COUNT = 2**53
"""The largest whole number of anything: up to it, a float holds every whole number."""

LARGEST_SEED = 2**63 - 1
"""The largest seed: a whole number of 64 bits, with its sign."""

LARGEST_AMOUNT, SMALLEST_PRICE = 1e100, 1e-100
"""Bounds of costs: sums and ratios of costs between them do not overflow."""

LONGEST_TEXT = 100
"""How many characters of a wrong value a message shows."""


def plain_scalar(value: Any) -> Any:
    """Return a scalar of NumPy as the scalar of Python that it stands for, and any other value as it is."""
    return value.item() if isinstance(value, np.generic) else value


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number and not a boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def short(value: object) -> str:
    """Return a value as a message shows it: whole, unless it is very long or cannot be written."""
    try:
        text = repr(value)
    # Writing it may run the user's code; and Python refuses to write whole numbers of more than 4300 digits.
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def whole_number(name: str, value: object, at_least: int = 1, at_most: int = LARGEST_COUNT) -> int:
    """Return a whole number; raise ValueError, with the name of the argument, if it is out of range or not whole."""
    if not is_whole(value) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {short(value)}")
    if value > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {short(value)}")
    return int(value)


def seed_number(value: object) -> int:
    """Return the seed of a study; raise ValueError if random numbers cannot begin there, or no storage can hold it."""
    return whole_number("seed", value, at_least=0, at_most=LARGEST_SEED)


def positive_number(name: str, value: object) -> float:
    """Return a number above zero, infinity included; raise ValueError otherwise."""
    if not is_real(value):
        raise ValueError(f"{name} must be a number, got {short(value)}")
    if not value > 0:
        raise ValueError(f"{name} must be positive, got {short(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit into a float, got {short(value)}") from None


def finite_amount(name: str, value: object) -> float:
    """Return a finite number of at least zero, such as a cost; raise ValueError otherwise."""
    value = plain_scalar(value)
    if not is_real(value) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {short(value)}")
    if value > LARGEST_AMOUNT:
        raise ValueError(f"{name} must be at most {LARGEST_AMOUNT:g}, got {short(value)}")
    return float(value)
