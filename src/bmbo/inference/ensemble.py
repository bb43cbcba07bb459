"""Maxima of the log density by Adam: starts for the samplers, and an ensemble of their own."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.target import Info, Result, Target, as_start


@partial(jax.tree_util.register_dataclass, data_fields=["position", "logdensity", "gradient"], meta_fields=[])
@dataclass(frozen=True)
class Optimum:
    """The best position that each chain has seen; log density -inf and gradient 0 where none was finite."""

    position: Float[Array, "c p"]
    logdensity: Float[Array, " c"]
    gradient: Float[Array, "c p"]


def search(
    target: Target, start: Float[Array, "c p"], num_steps: Int[Array, ""] | int, learning_rate: float
) -> Optimum:
    """Adam with cosine decay from each start; with one step it only evaluates the start.

    A step into a region that is not finite is taken back and its momentum dies away.
    """
    value_and_gradient = jax.vmap(jax.value_and_grad(target.logdensity))
    adam: Any = optax.scale_by_adam()  # its types are of trees

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


def optimise(
    target: Target, start: Float[Array, "c p"], num_steps: Int[Array, ""] | int, learning_rate: float = 0.01
) -> Float[Array, "c p"]:
    """The best position found from each start by Adam on the log density; `num_steps` may be traced."""
    return search(target, as_start(start), num_steps, learning_rate).position


@dataclass(frozen=True)
class DeepEnsemble:
    """Members are maxima of the posterior, each from a start of its own: they differ because the starts do.

    Args:
        num_members: how many draws there are.
        num_steps: of Adam, for a first fit.
        num_steps_warm: of Adam, from an earlier fit's members.
        learning_rate: where the cosine decay begins; 0.01 suits weights of order one.
    """

    num_members: int = 16
    num_steps: int = 5000
    num_steps_warm: int = 500
    learning_rate: float = 0.01

    @property
    def num_chains(self) -> int:
        """One start a member."""
        return self.num_members

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """Members in the order of their starts; nothing here is random but the starts."""
        del key
        num_steps = jnp.where(warm, self.num_steps_warm, self.num_steps)
        members = optimise(target, start, num_steps, self.learning_rate)
        return Result(members, members, Info.unknown(self.num_members))
