"""Chain networks so that each level sees only the level below, and predict the top from a value of a lower level."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.history import Dataset
from bmbo.inference import Info
from bmbo.surrogates.darn import Darn, DarnPosterior, Preset
from bmbo.surrogates.darn_density import CollapsedModel, SampledModel
from bmbo.surrogates.darn_networks import Weights

NUM_GIVEN = 64
"""Draws that predict the top: only their mean and variance are needed."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ChainedDarnPosterior:
    """Hold drawn chains of networks."""

    networks: DarnPosterior

    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        return self.networks.draw(unit)

    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        return self.networks.draw_each(unit)

    @property
    def noise(self) -> Float[Array, " m"]:
        """See `Posterior`."""
        return self.networks.noise

    def top_given(self, unit: Float[Array, "q d"], level: int, output: Float[Array, "q k"]) -> Float[Array, "t q k"]:
        """Return the top level of some draws, evenly spaced, if a lower level had these outputs."""
        stack, dim = self.networks.stack, unit.shape[1]
        inputs = stack.first_inputs(jnp.repeat(unit, output.shape[1], axis=0))

        def top(levels: tuple[Weights, ...]) -> Float[Array, " r"]:
            below = output.reshape(-1)
            for weights in levels:
                fed = stack.next_inputs(inputs, below, dim)
                below = stack.network.features(weights.hidden, fed, dim) @ weights.last
            return below

        num_draws = self.networks.precision.shape[0]
        stride = max(1, num_draws // NUM_GIVEN)
        above = jax.tree.map(lambda leaf: leaf[::stride][:NUM_GIVEN], self.networks.levels[level + 1 :])
        # In small batches: all features of all draws at once would fill a gigabyte.
        given = jax.lax.map(top, above, batch_size=8)
        return given.reshape(given.shape[0], *output.shape)


@dataclass(frozen=True)
class ChainedDarn:
    """Learn with DNN-MFBO's surrogate: the chain of networks with `links="previous"`, under our inference."""

    darn: Darn

    def __post_init__(self) -> None:
        if self.darn.model.stack.links != "previous":
            raise ValueError(f'a chain needs links="previous", got links={self.darn.model.stack.links!r}')

    @classmethod
    def preset(cls, preset: Preset = "default") -> "ChainedDarn":
        """Return the surrogate of `Darn.preset`, with each level linked to the level below only."""
        darn = Darn.preset(preset)
        model = darn.model
        if not isinstance(model, CollapsedModel | SampledModel):
            raise TypeError(f"the links of a {type(model).__name__} cannot be set")
        return cls(replace(darn, model=replace(model, stack=replace(model.stack, links="previous"))))

    def fit(
        self, key: PRNGKeyArray, data: Dataset, warm: Any = None
    ) -> tuple[ChainedDarnPosterior, Float[Array, "c p"], Info]:
        """See `Surrogate`."""
        posterior, last, info = self.darn.fit(key, data, warm)
        return ChainedDarnPosterior(posterior), last, info
