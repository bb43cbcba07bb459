"""Hold functions of all levels, where each level sees the outputs of the levels below."""

from dataclasses import dataclass, field
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bmbo.surrogates.gp.pathwise_draws import LevelDraws

Links = Literal["all", "previous", "none"]


def seen(level: int, links: Links) -> slice:
    """Return the lower levels whose outputs a level sees."""
    first = {"all": 0, "previous": max(level - 1, 0), "none": level}[links]
    return slice(first, level)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ChainPosterior:
    """Hold functions of each level, lowest first: draw s of a level sees the outputs of draw s of the levels below."""

    levels: tuple[LevelDraws, ...]
    links: Links = field(metadata={"static": True})

    @jax.jit
    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        single = unit.astype(jnp.float32)
        outputs = jnp.zeros((self.levels[0].num_draws, unit.shape[0], 0), jnp.float32)
        for level, draws in enumerate(self.levels):
            output = draws.draw(single, outputs[..., seen(level, self.links)])
            outputs = jnp.concatenate([outputs, output[..., None]], axis=-1)
        return outputs

    @jax.jit
    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        single = unit.astype(jnp.float32)
        outputs = jnp.zeros((*unit.shape[:2], 0), jnp.float32)
        for level, draws in enumerate(self.levels):
            output = draws.draw_each(single, outputs[..., seen(level, self.links)])
            outputs = jnp.concatenate([outputs, output[..., None]], axis=-1)
        return outputs

    @property
    def noise(self) -> Float[Array, " m"]:
        """See `Posterior`."""
        return jnp.stack([jnp.mean(draws.noise) for draws in self.levels])
