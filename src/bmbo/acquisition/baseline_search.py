"""Share what the scores of the baselines need: moments given what is in flight, and the search for the best place."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bmbo.acquisition.batch_information import KNOWN, Taken, centre, take
from bmbo.acquisition.batch_invariants import Pending
from bmbo.acquisition.box_minimiser import minimise_box
from bmbo.acquisition.runnable_points import exact_point
from bmbo.acquisition.sampled_optima import (
    OPTIMUM_CANDIDATES,
    OPTIMUM_STARTS,
    OPTIMUM_STEPS,
    Optimum,
    find_optimum,
)
from bmbo.acquisition.top_level_climbs import CLIMB_STEPS, NUM_CANDIDATES, NUM_CLIMBS
from bmbo.history import Query
from bmbo.problem import Space
from bmbo.protocols import Posterior


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moments:
    """Hold the moments of all levels at some points, given the values in flight.

    Attributes:
        mean: means before those values are known.
        variance: variances once they are known.
        with_top: covariances with the top level once they are known.
        projected: covariances with the whitened values in flight; their product with these values moves the mean.
    """

    mean: Float[Array, "q m"]
    variance: Float[Array, "q m"]
    with_top: Float[Array, "q m"]
    projected: Float[Array, "p q m"]


def in_flight(posterior: Posterior, pending: Pending) -> tuple[Float[Array, "s p"], Taken]:
    """Return drawn values of the queries in flight, less their means, and what conditions on them."""
    drawn = posterior.draw(pending.unit)
    values = jnp.take_along_axis(drawn, pending.level[None, :, None], axis=2)[..., 0]
    taken = take(centre(values), posterior.noise[pending.level], pending.mask, jnp.zeros_like(values[:, 0]))
    return values - jnp.mean(values, axis=0, keepdims=True), taken


def moments(drawn: Float[Array, "s q m"], taken: Taken) -> Moments:
    """Return means and covariances over the draws; a variance as small as rounding is kept above zero."""
    centred = centre(drawn)
    projected = jnp.einsum("kp,sp,sqm->kqm", taken.whiten, taken.centred, centred)
    before = jnp.sum(centred**2, axis=0)
    # The smallest normal number keeps gradients finite where all draws agree.
    least = KNOWN * float(jnp.finfo(drawn.dtype).eps) * before + float(jnp.finfo(drawn.dtype).tiny)
    with_top = jnp.sum(centred * centred[..., -1:], axis=0) - jnp.sum(projected * projected[..., -1:], axis=0)
    return Moments(
        mean=jnp.mean(drawn, axis=0),
        variance=jnp.maximum(before - jnp.sum(projected**2, axis=0), least),
        with_top=with_top,
        projected=projected,
    )


@dataclass(frozen=True)
class CandidateSearch:
    """Describe how the best place is searched; by default as hard as our own methods search.

    Args:
        num_candidates: number of random points that are scored.
        num_climbs: number of best points of each level that are improved by gradient.
        climb_steps: evaluations in each improvement.
        optimum_candidates, optimum_starts, optimum_steps: how f* is found for each draw, see `find_optimum`.
    """

    num_candidates: int = NUM_CANDIDATES
    num_climbs: int = NUM_CLIMBS
    climb_steps: int = CLIMB_STEPS
    optimum_candidates: int = OPTIMUM_CANDIDATES
    optimum_starts: int = OPTIMUM_STARTS
    optimum_steps: int = OPTIMUM_STEPS

    def __post_init__(self) -> None:
        if self.num_candidates < self.num_climbs or self.optimum_candidates < self.optimum_starts:
            raise ValueError("num_candidates must be at least num_climbs, and optimum_candidates optimum_starts")


@partial(jax.jit, static_argnames=("space", "search"))
def find_optima(key: PRNGKeyArray, posterior: Posterior, *, space: Space, search: CandidateSearch) -> Optimum:
    """Return f* of every draw."""
    return find_optimum(
        key,
        posterior,
        space.dim,
        num_candidates=search.optimum_candidates,
        num_starts=search.optimum_starts,
        max_steps=search.optimum_steps,
        snap=space.snap,
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Candidate:
    """Hold a point, a level and their score."""

    unit: Float[Array, " d"]
    level: Int[Array, ""]
    value: Float[Array, ""]

    def query(self, space: Space, tag: dict[str, Any] | None = None) -> Query:
        """Return the query, with an exact point."""
        return Query(exact_point(self.unit, space), int(self.level), tag or {})


def best_candidate(
    key: PRNGKeyArray,
    score: Callable[[Float[Array, "q d"]], Float[Array, "q m"]],
    extra: Float[Array, "e d"],
    *,
    space: Space,
    search: CandidateSearch,
) -> Candidate:
    """Return the best pair of a point and a column of the score.

    It is the best among random points, extra points, and the ends of climbs from the best of these.
    """
    uniform = jax.random.uniform(key, (search.num_candidates, space.dim), extra.dtype)
    candidates = space.snap(jnp.concatenate([uniform, extra]))
    values = _numbers(score(candidates))
    num_levels = values.shape[1]
    start = candidates[jax.lax.top_k(values.T, search.num_climbs)[1].reshape(-1)]
    level = jnp.repeat(jnp.arange(num_levels, dtype=jnp.int32), search.num_climbs)

    def height(unit: Float[Array, "b d"]) -> Float[Array, " b"]:
        return jnp.take_along_axis(score(unit), level[:, None], axis=1)[:, 0]

    climbed = minimise_box(lambda unit: -height(unit), start, max_steps=search.climb_steps)
    unit = jnp.concatenate([space.snap(climbed.unit), start])
    value = _numbers(jnp.concatenate([height(space.snap(climbed.unit)), height(start)]))
    winner = jnp.argmax(value)
    return Candidate(unit[winner], jnp.concatenate([level, level])[winner], value[winner])


def _numbers(value: Float[Array, "*k"]) -> Float[Array, "*k"]:
    return jnp.where(jnp.isnan(value), -jnp.inf, value)
