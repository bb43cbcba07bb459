"""Decide which points of the unit cube are the same point. The whole package uses the rules of this file.

Points that may have gone through single precision are compared with a tolerance, recorded configurations exactly.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAME_POINT = 1e-6
"""Largest difference of a coordinate. A point that is converted to single precision and back differs by less."""


def same_points(one: Any, other: Any) -> Any:
    """Return which points [b d] coincide with which points [e d], as an array of booleans [b e].

    Both arrays are NumPy arrays, or both are JAX arrays, also inside jit.
    """
    xp = one.__array_namespace__()
    return xp.max(xp.abs(one[:, None] - other[None]), axis=-1) < SAME_POINT


def is_among(unit: Sequence[float], others: Iterable[Sequence[float]]) -> bool:
    """Return whether a point is one of several others."""
    rows = np.asarray([list(other) for other in others], np.float64)
    return bool(len(rows)) and bool(np.any(same_points(np.asarray([unit], np.float64), rows)))


def same_configuration(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two points of a study's record stand for one configuration.

    The ledger encodes every point from a configuration in double precision, so that equal configurations have equal
    points. A tolerance would mistake neighbours of an integer with millions of values for each other.
    """
    return tuple(one) == tuple(other)


def point_key(unit: NDArray[np.float64]) -> bytes:
    """Return a key for sets of points in double precision; points that differ by rounding alone share it.

    A configuration that is decoded and encoded again may differ in its last digits.
    """
    return (np.round(unit, 12) + 0.0).tobytes()  # the sum turns -0.0 into 0.0
