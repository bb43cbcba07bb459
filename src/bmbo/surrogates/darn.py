"""Combine model, inference and posterior into the surrogate of deep auto-regressive networks."""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bmbo.history import Dataset
from bmbo.inference import MCLMC, AdaptiveHMC, Inference, Info, PaperHMC, Target
from bmbo.surrogates.darn_density import CollapsedModel, Model, Parameters, SampledModel
from bmbo.surrogates.darn_networks import Network, Stack, Weights

Preset = Literal["default", "paper", "paper_adapted"]
"""Settings of `Darn.preset`."""

PAPER_FUNCTIONS = 100
"""The paper's L."""

ADAPTED = AdaptiveHMC(
    num_chains=4,
    num_warmup=500,
    num_warmup_warm=100,
    num_draws_per_chain=25,
    thinning=10,
    num_search_steps=1000,
)
"""The paper's kernel, 10 leapfrog steps and 10 transitions between draws, with a step that is tuned in each chain."""

ADAPTED_B0 = 0.01
"""Rate of the Gamma prior on each noise precision in the preset "paper_adapted": noise of a tenth of the spread."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DarnPosterior:
    """Hold drawn chains of networks.

    Attributes:
        levels: the networks of each level; the first axis of every array is the draw.
        precision: tau of each draw and level.
        stack: how the networks are chained.
    """

    levels: tuple[Weights, ...]
    precision: Float[Array, "s m"]
    stack: Stack = field(metadata={"static": True})

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
    """Learn with the paper's surrogate: a chain of Bayesian networks, one per level.

    Args:
        model: the density, equation (4), and its networks.
        inference: how parameters are drawn from it.
        num_replicas: functions for each draw of the hidden layers, each with a new draw of the top level's last layer.
            This is exact for a collapsed model, whose top xi is independent of everything else. For a sampled model it
            must be 1.
        num_functions: functions that the posterior keeps, evenly spaced over the draws; all of them by default.
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
        """Return the surrogate of a preset.

        "paper" has the paper's network and its HMC as printed, "paper_adapted" the same density with chains that work
        (docs/methods.md). "default" is what was measured to be best (docs/design.md).
        """
        if preset == "paper":
            return cls(SampledModel(Stack(Network())), PaperHMC(), num_functions=PAPER_FUNCTIONS)
        if preset == "paper_adapted":
            model = CollapsedModel(Stack(Network()), b0=ADAPTED_B0)
            return cls(model, ADAPTED, num_functions=PAPER_FUNCTIONS, double=True)
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
        raise ValueError(f"unknown preset {preset!r}; choose 'default', 'paper' or 'paper_adapted'")

    def fit(
        self, key: PRNGKeyArray, data: Dataset, warm: Float[Array, "c p"] | None = None
    ) -> tuple[DarnPosterior, Float[Array, "c p"], Info]:
        """See `Surrogate`; `warm` holds the last positions of the chains."""
        with jax.enable_x64(self.double or bool(jax.config.read("jax_enable_x64"))):
            key_start, key_fit = jax.random.split(key)
            start = self.starts(key_start, data) if warm is None else warm
            return _fit(key_fit, data, start, jnp.asarray(warm is not None), surrogate=self)

    def starts(self, key: PRNGKeyArray, data: Dataset) -> Float[Array, "c p"]:
        """Return one start per chain, for a first fit."""
        dim, num_levels = data.unit.shape[1], data.num_levels

        return _starts(key, surrogate=self, dim=dim, num_levels=num_levels)

    def target(self, data: Dataset) -> Target:
        """Return the log density over flat vectors; it monitors itself and the predictions at the top level's data."""
        unravel = self._unravel(data)

        def monitor(flat: Float[Array, " p"]) -> Float[Array, " k"]:
            log_joint, levels = self.model.log_joint(unravel(flat), data)
            # Padded rows all lie at the corner of the cube. They are predictions like any other.
            outputs = self.model.stack.outputs(levels, data.unit[data.rows(data.num_levels - 1)])[:, -1]
            return jnp.concatenate([log_joint[None], outputs]).astype(flat.dtype)

        return Target(
            logdensity=lambda flat: self.model.log_joint(unravel(flat), data)[0].astype(flat.dtype),
            estimate=lambda key, flat: self.model.log_joint_estimate(key, unravel(flat), data).astype(flat.dtype),
            monitor=monitor,
        )

    def posterior(self, key: PRNGKeyArray, draws: Float[Array, "s p"], data: Dataset) -> DarnPosterior:
        """Return the networks of drawn parameters, `num_replicas` for each draw, in single precision."""
        unravel = self._unravel(data)
        if self.num_functions is not None:
            kept = max(1, self.num_functions // self.num_replicas)
            draws = draws[:: max(1, draws.shape[0] // kept)][:kept]
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
    # Also what is reported is in single precision: callers compute with it outside of a double-precision fit.
    info = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), result.info)
    return surrogate.posterior(key_posterior, result.draws, data), result.last, info
