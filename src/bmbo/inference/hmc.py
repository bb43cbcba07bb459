"""Run Hamiltonian Monte Carlo: with the paper's settings, and with tuned steps and several chains."""

from dataclasses import dataclass
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.adaptive_chains import AdaptiveChains, ChainState, Transition, as_transition, collect
from bmbo.inference.diagnostics import mixing
from bmbo.inference.inference_interface import Info, Result, Target, as_start


class _Progress(NamedTuple):
    state: ChainState
    acceptance: Float[Array, ""]
    divergences: Float[Array, ""]


@dataclass(frozen=True)
class PaperHMC:
    """Run one chain with a fixed step and an identity metric from the given start: the paper's settings.

    A warm start changes nothing, because the paper trains from scratch each time.

    Args:
        num_burnin: transitions before the first draw.
        num_draws: number of draws kept.
        thinning: transitions from one kept draw to the next.
        num_leapfrog: integration steps of a transition.
        step_size: step size of the integrator.
    """

    num_burnin: int = 5000
    num_draws: int = 200
    thinning: int = 10
    num_leapfrog: int = 10
    step_size: float = 0.012

    @property
    def num_chains(self) -> int:
        """Return one."""
        return 1

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "1 p"], warm: Bool[Array, ""]) -> Result:
        """Return draws; a transition to where the density is not finite is rejected."""
        del warm
        position = as_start(start)[0]
        inverse_mass = jnp.ones_like(position)
        kernel = blackjax.hmc.build_kernel()

        def advance(index: Int[Array, ""], warming: Bool[Array, ""], old: _Progress) -> tuple[_Progress, Array]:
            key_move = jax.random.fold_in(key, index)
            moved, info = kernel(
                key_move, old.state, target.logdensity, self.step_size, inverse_mass, self.num_leapfrog
            )
            counted = jnp.where(warming, 0.0, 1.0)
            acceptance = old.acceptance + counted * info.acceptance_rate
            divergences = old.divergences + counted * info.is_divergent
            return _Progress(ChainState(*moved), acceptance, divergences), moved.position[None]

        zero = jnp.zeros_like(position[0])
        end, draws = collect(
            advance,
            _Progress(_begin(target, position), zero, zero),
            position[None],
            num_warmup=self.num_burnin,
            num_draws=self.num_draws,
            thinning=self.thinning,
        )
        info = Info(
            end.acceptance[None] / (self.num_draws * self.thinning),
            end.divergences[None],
            jnp.full(1, self.step_size, position.dtype),
            *mixing(target, draws),
        )
        return Result(draws[0], end.state.position[None], info)


@dataclass(frozen=True)
class AdaptiveHMC(AdaptiveChains):
    """Run several chains from maxima of the density, with a tuned, jittered step and a fixed number of leapfrog steps.

    Args:
        num_leapfrog: integration steps of a transition.
    """

    num_leapfrog: int = 10

    def transition(self, target: Target) -> Transition:
        """Return the function that moves a chain to the end of a leapfrog trajectory, accepted or not."""
        kernel = blackjax.hmc.build_kernel()
        return as_transition(
            lambda key, state, step_size, inverse_mass: kernel(
                key, state, target.logdensity, step_size, inverse_mass, self.num_leapfrog
            )
        )


def _begin(target: Target, position: Float[Array, " p"]) -> ChainState:
    """Return the state at a start; a log density that is not finite becomes -inf, so that any finite one wins."""
    logdensity, gradient = jax.value_and_grad(target.logdensity)(position)
    finite = jnp.isfinite(logdensity) & jnp.all(jnp.isfinite(gradient))
    return ChainState(position, jnp.where(finite, logdensity, -jnp.inf), jnp.where(finite, gradient, 0.0))
