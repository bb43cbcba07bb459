"""Snap points on the host, where the points of a grid are exact in double precision."""

import numpy as np
from jaxtyping import Array, Float

from bmbo.problem import Space


def exact_points(units: Float[Array, "n d"] | Float[np.ndarray, "n d"], space: Space) -> list[tuple[float, ...]]:
    """Return points that can be run, exact in double precision, from points that single precision has rounded."""
    return [tuple(float(u) for u in unit) for unit in space.snap(np.asarray(units, np.float64))]


def exact_point(unit: Float[Array, " d"] | Float[np.ndarray, " d"], space: Space) -> tuple[float, ...]:
    """Return one point as `exact_points` does."""
    return exact_points(np.asarray(unit)[None], space)[0]
