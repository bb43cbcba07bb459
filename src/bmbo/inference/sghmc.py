"""Run stochastic-gradient Hamiltonian Monte Carlo (Chen et al. 2014): part of the data per step, no Metropolis step."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.sgmcmc import diffusions
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.adaptive_chains import collect
from bmbo.inference.density_maxima import search_unless_warm
from bmbo.inference.diagnostics import mixing
from bmbo.inference.inference_interface import Info, Result, Target


class _Progress(NamedTuple):
    position: Float[Array, "c p"]
    momentum: Float[Array, "c p"]
    divergences: Float[Array, " c"]


@dataclass(frozen=True)
class SGHMC:
    """Run several chains from maxima of the density, with friction that removes the noise of the gradient.

    The draws have two biases: one from the step size, one from gradient noise, in proportion to step_size / friction.

    Args:
        num_chains: number of chains, which run in parallel.
        num_warmup: steps before the first draw of a first fit.
        num_warmup_warm: steps before the first draw if the start comes from an earlier fit.
        num_draws_per_chain: number of draws kept from each chain.
        thinning: steps from one kept draw to the next.
        step_size: size of the first step; a network of a few thousand weights and hundreds of rows is unstable at
            0.003.
        decay: the step size falls as (1 + t / num_warmup)^-decay; 0 keeps it, 1/3 gives the smallest bias in the end.
        friction: rate at which momentum is lost and renewed.
        gradient_noise: known diffusion of the gradient noise (beta of Ma et al. 2015), which is then left out.
        num_search_steps: steps of Adam, for a first fit.
        learning_rate: learning rate of Adam at its start.
    """

    num_chains: int = 16
    num_warmup: int = 1000
    num_warmup_warm: int = 300
    num_draws_per_chain: int = 20
    thinning: int = 50
    step_size: float = 5e-4
    decay: float = 0.0
    friction: float = 10.0
    gradient_noise: float = 0.0
    num_search_steps: int = 2000
    learning_rate: float = 0.01

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """Return draws; a step to where the density is not finite is undone, counted, and gets a new momentum."""
        num_warmup = jnp.where(warm, self.num_warmup_warm, self.num_warmup)
        found = search_unless_warm(
            target, start, warm, num_steps=self.num_search_steps, learning_rate=self.learning_rate
        ).position
        key_momentum, key_steps = jax.random.split(key)
        diffuse: Any = diffusions.sghmc(self.friction, self.gradient_noise)  # its types are those of trees

        def move(key: PRNGKeyArray, position: Array, momentum: Array, step_size: Array) -> tuple[Array, Array, Array]:
            key_data, key_noise, key_again = jax.random.split(key, 3)
            # The gradient at the end of the step and not at its start: symplectic Euler, which is stable for small
            # friction.
            gradient = jax.grad(target.estimate, argnums=1)(key_data, position + step_size * momentum)
            new_position, new_momentum = diffuse(key_noise, position, momentum, gradient, step_size)
            finite = jnp.all(jnp.isfinite(new_position)) & jnp.all(jnp.isfinite(new_momentum))
            again = jax.random.normal(key_again, momentum.shape, momentum.dtype)
            return jnp.where(finite, new_position, position), jnp.where(finite, new_momentum, again), ~finite

        def advance(index: Int[Array, ""], warming: Bool[Array, ""], carry: _Progress) -> tuple[_Progress, Array]:
            keys = jax.random.split(jax.random.fold_in(key_steps, index), self.num_chains)
            position, momentum, astray = jax.vmap(move, (0, 0, 0, None))(
                keys, carry.position, carry.momentum, self._step_size(index)
            )
            return _Progress(position, momentum, carry.divergences + jnp.where(warming, 0.0, astray)), position

        momentum = jax.random.normal(key_momentum, found.shape, found.dtype)
        end, draws = collect(
            advance,
            _Progress(found, momentum, jnp.zeros_like(found[:, 0])),
            found,
            num_warmup=num_warmup,
            num_draws=self.num_draws_per_chain,
            thinning=self.thinning,
        )
        total = num_warmup + self.num_draws_per_chain * self.thinning
        unknown = jnp.full_like(end.divergences, jnp.nan)
        step_size = jnp.full_like(end.divergences, self._step_size(total))
        info = Info(unknown, end.divergences, step_size, *mixing(target, draws))
        return Result(draws.reshape(-1, draws.shape[-1]), end.position, info)

    def _step_size(self, index: Int[Array, ""]) -> Float[Array, ""]:
        """Return the step size at one step of the schedule."""
        return self.step_size * (1.0 + index / max(self.num_warmup, 1)) ** -self.decay
