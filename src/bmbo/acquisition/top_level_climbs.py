"""Search the top level for the best points by a criterion: random points first, then climbs from the best."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.acquisition.box_minimiser import minimise_box
from bmbo.history.dataset import block_size
from bmbo.problem import Space
from bmbo.protocols import Posterior

NUM_CANDIDATES = 512
"""Random points that a search for the best place scores; the same number for our methods and for all baselines."""
NUM_CLIMBS = 16
"""Best points from which such a search climbs."""
CLIMB_STEPS = 40
"""Evaluations in each climb."""

Criterion = Callable[[Float[Array, "s b"]], Float[Array, " b"]]
"""Map the draws of the top level at some points to how good the points are."""


class Candidates(NamedTuple):
    """Hold points that can be run, and how good they are by a criterion."""

    unit: Float[Array, "b d"]
    height: Float[Array, " b"]


def climb(
    key: PRNGKeyArray, posterior: Posterior, criterion: Criterion, extra: Float[Array, "e d"], space: Space
) -> Candidates:
    """Return the ends of climbs from the best of random and extra points, followed by all these points."""

    def height(unit: Float[Array, "b d"]) -> Float[Array, " b"]:
        return criterion(posterior.draw(unit)[..., -1])

    uniform = jax.random.uniform(key, (NUM_CANDIDATES, space.dim), extra.dtype)
    scattered = space.snap(jnp.concatenate([uniform, extra]))
    heights = height(scattered)
    start = scattered[jax.lax.top_k(heights, NUM_CLIMBS)[1]]
    climbed = space.snap(minimise_box(lambda unit: -height(unit), start, max_steps=CLIMB_STEPS).unit)
    return Candidates(jnp.concatenate([climbed, scattered]), jnp.concatenate([height(climbed), heights]))


def padded_points(points: Sequence[tuple[float, ...]], dim: int, smallest: int = 32) -> Float[Array, "e d"]:
    """Return points as an array, padded by the last point to a power of two, so that few shapes recur."""
    size = block_size(len(points), smallest)
    padding = [points[-1] if points else (0.5,) * dim] * (size - len(points))
    return jnp.asarray(np.asarray([*points, *padding], np.float32).reshape(size, dim))
