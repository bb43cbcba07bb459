"""Functions of all levels, each level seeing the outputs of those below."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bmbo.surrogates.gp.pathwise_draws import LevelDraws

Links = Literal["all", "previous", "none"]


def seen(level: int, links: Links) -> slice:
    """The lower levels whose outputs a level sees."""
    first = {"all": 0, "previous": max(level - 1, 0), "none": level}[links]
    return slice(first, level)


@partial(jax.tree_util.register_dataclass, data_fields=["levels"], meta_fields=["links"])
@dataclass(frozen=True)
class ChainPosterior:
    """Functions of each level, lowest first, chained: draw s of a level sees the outputs of draw s of those below."""

    levels: tuple[LevelDraws, ...]
    links: Links

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
