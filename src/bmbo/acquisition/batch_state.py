"""What stays the same while a batch is chosen: the candidates, what is in flight, f*, and their products."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.acquisition.information import Products, Taken, centre, chance_information, shifted_information, take
from bmbo.acquisition.sampled_optima import Optimum
from bmbo.history import Query
from bmbo.problem import Space
from bmbo.protocols import Posterior

Chance = int | Literal["bound"] | None
"""How the chance level is found: so many shifts of f* among the draws, the bound for independent candidates, or not."""


SAME = 1e-5  # points nearer than this in every coordinate are one: what is left of a point after a trip through float32


@partial(jax.tree_util.register_dataclass, data_fields=["unit", "level", "mask"], meta_fields=[])
@dataclass(frozen=True)
class Pending:
    """Queries in flight, padded; places of the batch that are taken and paid for."""

    unit: Float[Array, "p d"]
    level: Int[Array, " p"]
    mask: Bool[Array, " p"]

    @classmethod
    def of(cls, queries: Sequence[Query], dim: int) -> "Pending":
        """Pads to powers of two, so that few shapes recur; none and up to four share one."""
        size = max(4, 1 << max(len(queries) - 1, 0).bit_length())
        unit, level = np.zeros((size, dim)), np.zeros(size, np.int32)
        for row, query in enumerate(queries):
            unit[row], level[row] = query.unit, query.level
        mask = np.arange(size) < len(queries)
        return cls(jnp.asarray(unit, jnp.result_type(float)), jnp.asarray(level), jnp.asarray(mask))


@partial(jax.tree_util.register_dataclass, data_fields=["unit", "level", "outputs"], meta_fields=[])
@dataclass(frozen=True)
class Pairs:
    """Inputs with levels, and the centred outputs of the drawn functions there."""

    unit: Float[Array, "j d"]
    level: Int[Array, " j"]
    outputs: Float[Array, "s j"]

    def at(self, rows: Int[Array, " i"]) -> "Pairs":
        """Some rows."""
        return Pairs(self.unit[rows], self.level[rows], self.outputs[:, rows])

    def same_as(self, other: "Pairs") -> Bool[Array, "j i"]:
        """Which of these are which of the others."""
        near = jnp.abs(self.unit[:, None] - other.unit[None]) < SAME
        return jnp.all(near, axis=-1) & (self.level[:, None] == other.level[None])

    def joined(self, other: "Pairs") -> "Pairs":
        """These and then the others."""
        return Pairs(
            jnp.concatenate([self.unit, other.unit]),
            jnp.concatenate([self.level, other.level]),
            jnp.concatenate([self.outputs, other.outputs], axis=1),
        )


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        "candidates",
        "products",
        "repeated",
        "pending",
        "in_flight",
        "optimum",
        "noise",
        "costs",
        "chance",
        "before",
    ],
    meta_fields=[],
)
@dataclass(frozen=True)
class Scene:
    """All that stays the same while the batch changes.

    Attributes:
        candidates: every candidate at every level, levels fastest.
        products: the candidates' own, and those with the pending queries.
        repeated: which candidates are in flight already.
        pending: queries in flight.
        in_flight: which of them are no padding.
        optimum: f* of each draw, centred.
        noise: variance of an observation at each level.
        costs: in units of the cheapest level's.
        chance: information that a place which tells nothing would show.
        before: the pending queries alone, taken.
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
    ) -> "Scene":
        """Draws every candidate once, at all levels: all later scores on candidates are products of matrices."""
        uniform = jax.random.uniform(key, (num_candidates, space.dim))
        # Where a drawn function is best its value is f* itself: good candidates. Evenly over the draws, for neighbours
        # in a chain are alike.
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
        scene = cls(
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
        return replace(scene, chance=scene.chance_level(chance))

    def with_candidates(self, pairs: Pairs) -> Float[Array, "j jm"]:
        """Covariances of some outputs with those of every candidate."""
        return pairs.outputs.T @ self.candidates.outputs

    def chance_level(self, chance: Chance) -> Float[Array, ""]:
        """Information that the best of all candidates would show if none told anything."""
        outputs = self.candidates.outputs
        if chance is None:
            return jnp.zeros((), outputs.dtype)
        if chance == "bound":
            return jnp.asarray(chance_information(*outputs.shape), outputs.dtype)
        return shifted_information(outputs, self.noise[self.candidates.level], self.optimum, num_shifts=chance)
