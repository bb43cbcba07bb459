"""Find maxima of the log density by Adam, as starts for the samplers and as an ensemble."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.inference_interface import Info, Result, Target, as_start


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Optimum:
    """Hold the best position that each chain has seen; log density -inf and gradient 0 if none was finite."""

    position: Float[Array, "c p"]
    logdensity: Float[Array, " c"]
    gradient: Float[Array, "c p"]


def search(
    target: Target, start: Float[Array, "c p"], num_steps: Int[Array, ""] | int, learning_rate: float
) -> Optimum:
    """Return the best position on the way of Adam from each start; with one step, the evaluated start.

    The learning rate has a cosine decay. A step into a region that is not finite is undone, and its momentum dies away.
    """
    value_and_gradient = jax.vmap(jax.value_and_grad(target.logdensity))
    adam: Any = optax.scale_by_adam()  # its types are those of trees

    def body(index: Int[Array, ""], carry: tuple[Array, Any, Optimum]) -> tuple[Array, Any, Optimum]:
        position, moments, best = carry
        value, gradient = value_and_gradient(position)
        finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient), axis=1)
        better = finite & (value > best.logdensity)
        best = Optimum(
            jnp.where(better[:, None], position, best.position),
            jnp.where(better, value, best.logdensity),
            jnp.where(better[:, None], gradient, best.gradient),
        )
        updates, moments = adam.update(jnp.where(finite[:, None], gradient, 0.0), moments)
        rate = learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * index / num_steps))
        position = jnp.where(finite[:, None], position, best.position) + rate.astype(position.dtype) * updates
        return position, moments, best

    dtype = jax.eval_shape(target.logdensity, start[0]).dtype
    none_yet = Optimum(start, jnp.full(start.shape[0], -jnp.inf, dtype), jnp.zeros_like(start))
    return jax.lax.fori_loop(0, num_steps, body, (start, adam.init(start), none_yet))[2]


def search_unless_warm(
    target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""], *, num_steps: int, learning_rate: float
) -> Optimum:
    """Return the result of a search from each start, or the evaluated start itself if it is warm."""
    # One step of the search evaluates the start, which the first move of a chain needs.
    return search(target, as_start(start), jnp.where(warm, 1, max(num_steps, 1)), learning_rate)


def optimise(
    target: Target, start: Float[Array, "c p"], num_steps: Int[Array, ""] | int, learning_rate: float = 0.01
) -> Float[Array, "c p"]:
    """Return the best position that Adam finds from each start on the log density; `num_steps` may be traced."""
    return search(target, as_start(start), num_steps, learning_rate).position


@dataclass(frozen=True)
class DeepEnsemble:
    """Take maxima of the posterior as draws, each from its own start: they differ because their starts differ.

    Args:
        num_members: number of draws.
        num_steps: steps of Adam, for a first fit.
        num_steps_warm: steps of Adam from the members of an earlier fit.
        learning_rate: where the cosine decay begins; 0.01 suits weights of order one.
    """

    num_members: int = 16
    num_steps: int = 5000
    num_steps_warm: int = 500
    learning_rate: float = 0.01

    @property
    def num_chains(self) -> int:
        """Return the number of starts: one per member."""
        return self.num_members

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """Return the members in the order of their starts; only the starts are random."""
        del key
        num_steps = jnp.where(warm, self.num_steps_warm, self.num_steps)
        members = optimise(target, start, num_steps, self.learning_rate)
        return Result(members, members, Info.unknown(self.num_members))
