"""What is sampled, what comes back, and the one interface between them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


@dataclass(frozen=True)
class Target:
    """A density over a flat vector of parameters.

    Attributes:
        logdensity: log density up to a constant.
        estimate: an unbiased, differentiable estimate of `logdensity` from a random part of the data.
        monitor: quantities whose mixing matters: the log density and predictions, say, not the weights of a network,
            which are not identified.
    """

    logdensity: Callable[[Float[Array, " p"]], Float[Array, ""]]
    estimate: Callable[[PRNGKeyArray, Float[Array, " p"]], Float[Array, ""]]
    monitor: Callable[[Float[Array, " p"]], Float[Array, " k"]]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["acceptance", "divergences", "step_size", "rhat", "ess"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Info:
    """How an inference went, after its warm-up; NaN where a quantity means nothing for the method.

    Attributes:
        acceptance: mean acceptance probability of each chain.
        divergences: transitions of each chain that went astray.
        step_size: what each chain settled on.
        rhat: the largest over the monitored quantities.
        ess: the smallest effective number of draws over the same.
    """

    acceptance: Float[Array, " c"]
    divergences: Float[Array, " c"]
    step_size: Float[Array, " c"]
    rhat: Float[Array, ""]
    ess: Float[Array, ""]

    @classmethod
    def unknown(cls, num_chains: int) -> "Info":
        """For methods that have no chains to speak of."""
        each, one = jnp.full(num_chains, jnp.nan), jnp.asarray(jnp.nan)
        return cls(each, each, each, one, one)


@partial(jax.tree_util.register_dataclass, data_fields=["draws", "last", "info"], meta_fields=[])
@dataclass(frozen=True)
class Result:
    """Draws, all of one chain before those of the next, and where each chain ended: a start for the next fit."""

    draws: Float[Array, "s p"]
    last: Float[Array, "c p"]
    info: Info


@runtime_checkable
class Inference(Protocol):
    """Draws parameters from a target; called inside jit, hence raises nothing there."""

    @property
    def num_chains(self) -> int:
        """How many starts it needs."""
        ...

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """`warm` says that `start` comes from an earlier fit to nearly the same data, so that less warm-up will do.

        It is traced: cold and warm share one compilation.
        """
        ...


def as_start(start: Float[Array, "c p"]) -> Float[Array, "c p"]:
    """Positions in the default precision, in which BlackJAX draws its momenta; zero where they are not finite."""
    start = start.astype(jnp.result_type(float))
    return jnp.where(jnp.isfinite(start), start, 0.0)
