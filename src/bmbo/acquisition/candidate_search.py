"""What the baselines' scores have in common: moments given what is in flight, and the search for the best place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bmbo.acquisition.batch_state import Pending
from bmbo.acquisition.box_minimiser import minimise_box
from bmbo.acquisition.information import KNOWN, Taken, centre, take
from bmbo.acquisition.sampled_optima import Optimum, find_optimum
from bmbo.history import Query
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Select


@dataclass(frozen=True)
class OneAtATime(Select):
    """The same choice for a batch of one, however many are asked for; what is in flight still counts."""

    select: Select

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> list[Query]:
        """See `Select`."""
        return self.select(key, posterior, problem, pending, min(num, 1))


@partial(jax.tree_util.register_dataclass, data_fields=["mean", "variance", "with_top", "projected"], meta_fields=[])
@dataclass(frozen=True)
class Moments:
    """Of all levels at some points, given the values in flight.

    Attributes:
        mean: before those values are known.
        variance: what they leave.
        with_top: covariance with the top level, likewise.
        projected: covariance with the whitened values in flight: the mean moves by its product with them.
    """

    mean: Float[Array, "q m"]
    variance: Float[Array, "q m"]
    with_top: Float[Array, "q m"]
    projected: Float[Array, "p q m"]


def in_flight(posterior: Posterior, pending: Pending) -> tuple[Float[Array, "s p"], Taken]:
    """Drawn values of the queries in flight about their means, and what it takes to condition on observing them."""
    drawn = posterior.draw(pending.unit)
    values = jnp.take_along_axis(drawn, pending.level[None, :, None], axis=2)[..., 0]
    taken = take(centre(values), posterior.noise[pending.level], pending.mask, jnp.zeros_like(values[:, 0]))
    return values - jnp.mean(values, axis=0, keepdims=True), taken


def moments(drawn: Float[Array, "s q m"], taken: Taken) -> Moments:
    """Means and covariances over the draws; a variance that is down to rounding is kept above zero."""
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
class Search:
    """How the best place is looked for.

    Args:
        num_candidates: random points that are scored.
        num_climbs: best points of each level that are improved by gradient.
        climb_steps: evaluations in each improvement.
        optimum_candidates, optimum_starts, optimum_steps: how f* is found for each draw, see `find_optimum`.
    """

    num_candidates: int = 512
    num_climbs: int = 3
    climb_steps: int = 12
    optimum_candidates: int = 512
    optimum_starts: int = 1
    optimum_steps: int = 10

    def __post_init__(self) -> None:
        if self.num_candidates < self.num_climbs or self.optimum_candidates < self.optimum_starts:
            raise ValueError("num_candidates must be at least num_climbs, and optimum_candidates optimum_starts")


@partial(jax.jit, static_argnames=("space", "search"))
def find_optima(key: PRNGKeyArray, posterior: Posterior, *, space: Space, search: Search) -> Optimum:
    """f* of every draw."""
    return find_optimum(
        key,
        posterior,
        space.dim,
        num_candidates=search.optimum_candidates,
        num_starts=search.optimum_starts,
        max_steps=search.optimum_steps,
        snap=space.snap,
    )


@partial(jax.tree_util.register_dataclass, data_fields=["unit", "level", "value"], meta_fields=[])
@dataclass(frozen=True)
class Place:
    """A point, a level and their score."""

    unit: Float[Array, " d"]
    level: Int[Array, ""]
    value: Float[Array, ""]

    def query(self, space: Space, tag: dict[str, Any] | None = None) -> Query:
        """Snapped once more on the host, where a grid's points are exact in float64."""
        unit = space.snap(np.asarray(self.unit, np.float64))
        return Query(tuple(float(u) for u in unit), int(self.level), tag or {})


def best_place(
    key: PRNGKeyArray,
    score: Callable[[Float[Array, "q d"]], Float[Array, "q m"]],
    extra: Float[Array, "e d"],
    *,
    space: Space,
    search: Search,
) -> Place:
    """The best pair of a point and a column of the score among random and extra points and climbs from the best."""
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
    return Place(unit[winner], jnp.concatenate([level, level])[winner], value[winner])


def _numbers(value: Float[Array, "*k"]) -> Float[Array, "*k"]:
    return jnp.where(jnp.isnan(value), -jnp.inf, value)
