"""Hold what stays the same while a batch is chosen: the candidates, what is in flight, f*, and their products."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.acquisition.batch_information import Products, Taken, centre, chance_information, shifted_information, take
from bmbo.acquisition.sampled_optima import Optimum
from bmbo.history import Query
from bmbo.history.dataset import block_size
from bmbo.history.same_point import same_points
from bmbo.problem import Space
from bmbo.protocols import Posterior

Chance = int | Literal["bound"] | None
"""How to find the chance level: by this many shifts of f*, by the bound for independent candidates, or not at all."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pending:
    """Hold the queries in flight, padded: places that are taken and paid for."""

    unit: Float[Array, "p d"]
    level: Int[Array, " p"]
    mask: Bool[Array, " p"]

    @classmethod
    def of(cls, queries: Sequence[Query], dim: int) -> "Pending":
        """Return queries padded to a power of two of at least four, so that few shapes recur."""
        size = block_size(len(queries), smallest=4)
        unit, level = np.zeros((size, dim)), np.zeros(size, np.int32)
        for row, query in enumerate(queries):
            unit[row], level[row] = query.unit, query.level
        mask = np.arange(size) < len(queries)
        return cls(jnp.asarray(unit, jnp.result_type(float)), jnp.asarray(level), jnp.asarray(mask))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pairs:
    """Hold inputs with levels, and the centred outputs of the drawn functions there."""

    unit: Float[Array, "j d"]
    level: Int[Array, " j"]
    outputs: Float[Array, "s j"]

    def at(self, rows: Int[Array, " i"]) -> "Pairs":
        """Return some rows."""
        return Pairs(self.unit[rows], self.level[rows], self.outputs[:, rows])

    def same_as(self, other: "Pairs") -> Bool[Array, "j i"]:
        """Return which of these pairs equal which of the others."""
        return same_points(self.unit, other.unit) & (self.level[:, None] == other.level[None])

    def joined(self, other: "Pairs") -> "Pairs":
        """Return these pairs followed by the others."""
        return Pairs(
            jnp.concatenate([self.unit, other.unit]),
            jnp.concatenate([self.level, other.level]),
            jnp.concatenate([self.outputs, other.outputs], axis=1),
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BatchState:
    """Hold all that stays the same while the batch changes.

    Attributes:
        candidates: every candidate at every level; the level changes fastest.
        products: products of the candidates with themselves, with f* and with the pending queries.
        repeated: which candidates are already in flight.
        pending: queries in flight.
        in_flight: which of them are not padding.
        optimum: f* of each draw, centred.
        noise: variance of an observation at each level.
        costs: costs in units of the cheapest level's.
        chance: information that a useless place would show by chance.
        before: the pending queries alone, as taken places.
    """

    candidates: Pairs
    products: Products
    repeated: Bool[Array, " jm"]
    pending: Pairs
    in_flight: Bool[Array, " p"]
    optimum: Float[Array, " s"]
    noise: Float[Array, " m"]
    costs: Float[Array, " m"]
    chance: Float[Array, ""]
    before: Taken

    @classmethod
    def of(
        cls,
        key: PRNGKeyArray,
        posterior: Posterior,
        optimum: Optimum,
        costs: Float[Array, " m"],
        pending: Pending,
        *,
        space: Space,
        num_candidates: int,
        num_optimisers: int,
        observation_noise: bool,
        chance: Chance,
    ) -> "BatchState":
        """Return the state; it draws every candidate once, at all levels.

        All later scores of candidates are products of matrices.
        """
        uniform = jax.random.uniform(key, (num_candidates, space.dim))
        # Where a drawn function is best, its value is f* itself, so these points are good candidates. They are evenly
        # spaced over the draws, because neighbours in a chain are alike.
        stride = max(1, optimum.unit.shape[0] // max(num_optimisers, 1))
        unit = space.snap(jnp.concatenate([uniform, optimum.unit[::stride][:num_optimisers]]))
        drawn = centre(posterior.draw(jnp.concatenate([unit, pending.unit])))
        num_draws, _, num_levels = drawn.shape
        levels = jnp.arange(num_levels, dtype=jnp.int32)
        in_flight = jnp.take_along_axis(drawn[:, unit.shape[0] :], pending.level[None, :, None], axis=2)[..., 0]
        noise = posterior.noise if observation_noise else jnp.zeros_like(posterior.noise)
        best = centre(optimum.value)
        candidates = Pairs(
            unit=jnp.repeat(unit, num_levels, axis=0),
            level=jnp.tile(levels, unit.shape[0]),
            outputs=drawn[:, : unit.shape[0]].reshape(num_draws, -1),
        )
        taken = Pairs(pending.unit, pending.level, in_flight)
        state = cls(
            candidates=candidates,
            products=Products.of(candidates.outputs, noise[candidates.level], in_flight, best),
            repeated=jnp.any(taken.same_as(candidates) & pending.mask[:, None], axis=0),
            pending=taken,
            in_flight=pending.mask,
            optimum=best,
            noise=noise,
            costs=costs / jnp.min(costs),
            chance=jnp.zeros((), drawn.dtype),
            before=take(in_flight, noise[pending.level], pending.mask, best),
        )
        return replace(state, chance=state.chance_level(chance))

    def with_candidates(self, pairs: Pairs) -> Float[Array, "j jm"]:
        """Return the covariances of some outputs with those of every candidate."""
        return pairs.outputs.T @ self.candidates.outputs

    def chance_level(self, chance: Chance) -> Float[Array, ""]:
        """Return the information that the best of all candidates would show if all were useless."""
        outputs = self.candidates.outputs
        if chance is None:
            return jnp.zeros((), outputs.dtype)
        if chance == "bound":
            return jnp.asarray(chance_information(*outputs.shape), outputs.dtype)
        return shifted_information(outputs, self.noise[self.candidates.level], self.optimum, num_shifts=chance)
