"""Define what is sampled, what comes back, and the interface that all methods of inference have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


@dataclass(frozen=True)
class Target:
    """Describe a density over a flat vector of parameters.

    Attributes:
        logdensity: log density up to a constant.
        estimate: an unbiased, differentiable estimate of `logdensity` from a random part of the data.
        monitor: quantities whose mixing matters, such as the log density and predictions. The weights of a network are
            not among them, because they are not identified.
    """

    logdensity: Callable[[Float[Array, " p"]], Float[Array, ""]]
    estimate: Callable[[PRNGKeyArray, Float[Array, " p"]], Float[Array, ""]]
    monitor: Callable[[Float[Array, " p"]], Float[Array, " k"]]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Info:
    """Describe how an inference went after its warm-up; NaN where a quantity has no meaning for the method.

    Attributes:
        acceptance: mean acceptance probability of each chain.
        divergences: number of transitions of each chain that diverged.
        step_size: final step size of each chain.
        rhat: largest R-hat over the monitored quantities.
        ess: smallest effective number of draws over the monitored quantities.
    """

    acceptance: Float[Array, " c"]
    divergences: Float[Array, " c"]
    step_size: Float[Array, " c"]
    rhat: Float[Array, ""]
    ess: Float[Array, ""]

    @classmethod
    def unknown(cls, num_chains: int) -> "Info":
        """Return NaN everywhere, for methods without chains."""
        each, one = jnp.full(num_chains, jnp.nan), jnp.asarray(jnp.nan)
        return cls(each, each, each, one, one)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Result:
    """Hold draws, chain after chain, and the end of each chain, from which the next fit can start."""

    draws: Float[Array, "s p"]
    last: Float[Array, "c p"]
    info: Info


@runtime_checkable
class Inference(Protocol):
    """Draw parameters from a target; `run` is called inside jit and raises nothing there."""

    @property
    def num_chains(self) -> int:
        """Return the number of starts that `run` needs."""
        ...

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """Return draws from a target.

        `warm` says that `start` comes from an earlier fit to nearly the same data, so that a shorter warm-up is enough.
        It is traced, so that cold and warm fits share one compilation.
        """
        ...


def as_start(start: Float[Array, "c p"]) -> Float[Array, "c p"]:
    """Return positions in the default precision, in which BlackJAX draws momenta; zero where they are not finite."""
    start = start.astype(jnp.result_type(float))
    return jnp.where(jnp.isfinite(start), start, 0.0)
