"""The deep auto-regressive network surrogate: model, inference and posterior put together."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bmbo.history.dataset import Dataset
from bmbo.inference import MCLMC, Inference, Info, PaperHMC, Target
from bmbo.surrogates.darn_density import CollapsedModel, Model, Parameters, SampledModel
from bmbo.surrogates.networks import Network, Stack, Weights

Preset = Literal["default", "paper"]


@partial(jax.tree_util.register_dataclass, data_fields=["levels", "precision"], meta_fields=["stack"])
@dataclass(frozen=True)
class DarnPosterior:
    """Drawn chains of networks.

    Attributes:
        levels: the networks of each level, every array with the draws in front.
        precision: tau of each draw and level.
        stack: how they are chained.
    """

    levels: tuple[Weights, ...]
    precision: Float[Array, "s m"]
    stack: Stack

    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        return jax.vmap(self.stack.outputs, (0, None))(self.levels, unit)

    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        return jax.vmap(self.stack.outputs)(self.levels, unit)

    @property
    def noise(self) -> Float[Array, " m"]:
        """See `Posterior`."""
        return jnp.mean(1.0 / self.precision, axis=0)


@dataclass(frozen=True)
class Darn:
    """The paper's surrogate.

    Args:
        model: the density, equation (4), and its networks.
        inference: how parameters are drawn from it.
        num_replicas: functions for each draw of the hidden layers, by drawing the top level's last layer anew. Exact
            for a collapsed model, whose top xi is independent of all else; must be 1 for a sampled one.
        num_functions: functions that the posterior keeps, evenly over the draws; all of them by default.
        double: whether inference runs in double precision; a collapsed model needs it.
    """

    model: Model
    inference: Inference
    num_replicas: int = 1
    num_functions: int | None = None
    double: bool = False

    def __post_init__(self) -> None:
        if self.num_replicas > 1 and not isinstance(self.model, CollapsedModel):
            raise ValueError("num_replicas above 1 needs a CollapsedModel: other last layers cannot be drawn anew")

    @classmethod
    def preset(cls, preset: Preset = "default") -> "Darn":
        """`paper`: the paper to the letter. `default`: what was measured to be best (docs/design.md)."""
        if preset == "paper":
            return cls(SampledModel(Stack(Network())), PaperHMC(), num_functions=100)  # the paper's L
        if preset == "default":
            network = Network(width=40, depth=1, activation="cosine", scaling="learned")
            inference = MCLMC(
                num_chains=8,
                num_search_steps=150,
                num_warmup=600,
                num_warmup_warm=40,
                num_draws_per_chain=8,
                thinning=8,
                learning_rate=0.03,
            )
            return cls(CollapsedModel(Stack(network)), inference, num_replicas=8, double=True)
        raise ValueError(f"unknown preset {preset!r}; choose 'default' or 'paper'")

    def fit(
        self, key: PRNGKeyArray, data: Dataset, warm: Float[Array, "c p"] | None = None
    ) -> tuple[DarnPosterior, Float[Array, "c p"], Info]:
        """See `Surrogate`; `warm` holds the chains' last positions."""
        with jax.enable_x64(self.double or bool(jax.config.read("jax_enable_x64"))):
            key_start, key_fit = jax.random.split(key)
            start = self.starts(key_start, data) if warm is None else warm
            return _fit(key_fit, data, start, jnp.asarray(warm is not None), surrogate=self)

    def starts(self, key: PRNGKeyArray, data: Dataset) -> Float[Array, "c p"]:
        """One start a chain, for a first fit."""
        dim, num_levels = data.unit.shape[1], data.num_levels

        return _starts(key, surrogate=self, dim=dim, num_levels=num_levels)

    def target(self, data: Dataset) -> Target:
        """The log density over flat vectors; it and the predictions at the top level's data are what must mix."""
        unravel = self._unravel(data)

        def monitor(flat: Float[Array, " p"]) -> Float[Array, " k"]:
            log_joint, levels = self.model.log_joint(unravel(flat), data)
            # Rows that are padding all lie at the cube's corner: a prediction like any other.
            outputs = self.model.stack.outputs(levels, data.unit[data.rows(data.num_levels - 1)])[:, -1]
            return jnp.concatenate([log_joint[None], outputs]).astype(flat.dtype)

        return Target(
            logdensity=lambda flat: self.model.log_joint(unravel(flat), data)[0].astype(flat.dtype),
            estimate=lambda key, flat: self.model.log_joint_estimate(key, unravel(flat), data).astype(flat.dtype),
            monitor=monitor,
        )

    def posterior(self, key: PRNGKeyArray, draws: Float[Array, "s p"], data: Dataset) -> DarnPosterior:
        """The networks that drawn parameters stand for, `num_replicas` of each, in single precision."""
        unravel = self._unravel(data)
        if self.num_functions is not None:
            draws = draws[:: max(1, draws.shape[0] // self.num_functions)][: self.num_functions]
        draws = jnp.repeat(draws, self.num_replicas, axis=0)

        def networks(key: PRNGKeyArray, flat: Float[Array, " p"]) -> tuple[tuple[Weights, ...], Float[Array, " m"]]:
            parameters = unravel(flat)
            if self.num_replicas > 1:
                fresh = jax.random.normal(key, parameters.last[-1].shape, flat.dtype)
                last = (*parameters.last[:-1], fresh)
                parameters = Parameters(parameters.hidden, last, parameters.log_precision)
            return self.model.log_joint(parameters, data)[1], jnp.exp(parameters.log_precision)

        levels, precision = jax.vmap(networks)(jax.random.split(key, draws.shape[0]), draws)
        levels, precision = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (levels, precision))
        return DarnPosterior(levels, precision, self.model.stack)

    def _unravel(self, data: Dataset):
        return ravel_pytree(self.model.start(jax.random.key(0), data.unit.shape[1], data.num_levels))[1]


@partial(jax.jit, static_argnames=("surrogate", "dim", "num_levels"))
def _starts(key: PRNGKeyArray, *, surrogate: Darn, dim: int, num_levels: int) -> Float[Array, "c p"]:
    def start(key_chain: PRNGKeyArray) -> Float[Array, " p"]:
        return ravel_pytree(surrogate.model.start(key_chain, dim, num_levels))[0]

    return jax.vmap(start)(jax.random.split(key, surrogate.inference.num_chains))


@partial(jax.jit, static_argnames=("surrogate",))
def _fit(
    key: PRNGKeyArray, data: Dataset, start: Float[Array, "c p"], warm: Bool[Array, ""], *, surrogate: Darn
) -> tuple[DarnPosterior, Float[Array, "c p"], Info]:
    key_inference, key_posterior = jax.random.split(key)
    result = surrogate.inference.run(key_inference, surrogate.target(data), start, warm)
    return surrogate.posterior(key_posterior, result.draws, data), result.last, result.info
