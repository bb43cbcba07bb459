"""Run microcanonical Langevin Monte Carlo (Robnik et al. 2023): momentum on a sphere, with noise in its direction."""

from dataclasses import dataclass
from typing import NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.mcmc.integrators import IntegratorState, isokinetic_velocity_verlet
from blackjax.util import generate_unit_vector
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.adaptive_chains import AdaptiveChains, Moments, Transition, as_transition, collect, where
from bmbo.inference.density_maxima import Optimum, search_unless_warm
from bmbo.inference.diagnostics import mixing
from bmbo.inference.inference_interface import Info, Result, Target

MEMORY = 150
"""Number of past steps that the estimate of the step size uses, as in BlackJAX."""

TRUST = 1.5
"""Width, in log step size, of the range in which a step informs about the best step size, as in BlackJAX."""


class _States(NamedTuple):
    """Hold BlackJAX's IntegratorState with exact types."""

    position: Float[Array, "*c p"]
    momentum: Float[Array, "*c p"]
    logdensity: Float[Array, "*c"]
    logdensity_grad: Float[Array, "*c p"]


class _Progress(NamedTuple):
    states: _States
    step_size: Float[Array, " c"]
    largest: Float[Array, " c"]
    weight: Float[Array, " c"]
    average: Float[Array, " c"]
    moments: Moments
    length: Float[Array, " c"]
    divergences: Float[Array, " c"]


@dataclass(frozen=True)
class MCLMC:
    """Run several unadjusted chains from maxima of the density.

    The draws are biased; a smaller `energy_variance` makes the bias smaller.

    Args:
        num_chains: number of chains, which run in parallel.
        num_warmup: steps before the first draw of a first fit; a step needs one gradient.
        num_warmup_warm: steps before the first draw if the start comes from an earlier fit.
        num_draws_per_chain: number of draws kept from each chain.
        thinning: steps from one kept draw to the next.
        energy_variance: variance of the energy error of one step, per parameter; the step size is tuned to it.
        initial_step_size: where tuning begins, as a move of each parameter.
        num_search_steps: steps of Adam, for a first fit.
        learning_rate: learning rate of Adam at its start.
    """

    num_chains: int = 16
    num_warmup: int = 1000
    num_warmup_warm: int = 300
    num_draws_per_chain: int = 20
    thinning: int = 25
    energy_variance: float = 5e-4
    initial_step_size: float = 0.01
    num_search_steps: int = 2000
    learning_rate: float = 0.01

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """Return draws; a step to where the energy is not finite is undone, counted, and gets a new momentum."""
        num_warmup = jnp.where(warm, self.num_warmup_warm, self.num_warmup)
        found = search_unless_warm(
            target, start, warm, num_steps=self.num_search_steps, learning_rate=self.learning_rate
        )
        key_momentum, key_steps = jax.random.split(key)
        # One gradient per step, and so one gradient to compile; McLachlan's integrator has two.
        kernel = blackjax.mclmc.build_kernel(integrator=isokinetic_velocity_verlet)

        def move(key: PRNGKeyArray, state: _States, length: Array, step_size: Array) -> tuple[_States, Array, Array]:
            old = IntegratorState._make(state)
            moved, info = kernel(key, old, target.logdensity, jnp.ones_like(state.position), length, step_size)
            return _States(*moved), info.energy_change, info.nonans

        def advance(index: Int[Array, ""], warming: Bool[Array, ""], old: _Progress) -> tuple[_Progress, Array]:
            keys = jax.random.split(jax.random.fold_in(key_steps, index), self.num_chains)
            states, energy_change, finite = jax.vmap(move)(keys, old.states, old.length, old.step_size)
            divergences = old.divergences + jnp.where(warming, 0.0, ~finite)
            new = self._tune_step(old._replace(states=states, divergences=divergences), warming, energy_change, finite)
            return self._tune_length(new, index, num_warmup), states.position

        end, draws = collect(
            advance,
            self._begin(key_momentum, found),
            found.position,
            num_warmup=num_warmup,
            num_draws=self.num_draws_per_chain,
            thinning=self.thinning,
        )
        worst_rhat, worst_ess = mixing(target, draws)
        unknown = jnp.full_like(end.divergences, jnp.nan)
        info = Info(unknown, end.divergences, end.step_size, worst_rhat, worst_ess)
        return Result(draws.reshape(-1, draws.shape[-1]), end.states.position, info)

    def _begin(self, key: PRNGKeyArray, found: Optimum) -> _Progress:
        """Return chains with random momenta where the search ended."""
        position = found.position
        num_chains, num_parameters = position.shape
        momentum = jax.vmap(generate_unit_vector)(jax.random.split(key, num_chains), position)
        zeros = jnp.zeros_like(position[:, 0])
        # The momentum has norm one. To move each parameter by e, a step is e times the square root of their number.
        scale = jnp.sqrt(jnp.asarray(num_parameters, position.dtype))
        return _Progress(
            states=_States(position, momentum, found.logdensity, found.gradient),
            step_size=zeros + self.initial_step_size * scale,
            largest=zeros + jnp.inf,
            weight=zeros,
            average=zeros,
            moments=Moments.none(position),
            length=zeros + scale,
            divergences=zeros,
        )

    def _tune_step(
        self,
        progress: _Progress,
        warming: Bool[Array, ""],
        energy_change: Float[Array, " c"],
        finite: Bool[Array, " c"],
    ) -> _Progress:
        """Return the progress with a tuned step size, while warming.

        At the tuned size, the energy error of a step has the wanted variance, which grows with the 6th power of the
        size. This follows blackjax.adaptation.mclmc_adaptation, whose phases have lengths that are fixed when it is
        traced.
        """
        num_parameters = progress.states.position.shape[1]
        # The offset keeps the logarithm finite for a step without error.
        ratio = energy_change**2 / (num_parameters * self.energy_variance) + 1e-8
        weight = jnp.where(finite, jnp.exp(-0.5 * (jnp.log(ratio) / (6.0 * TRUST)) ** 2), 0.0)
        memory = (MEMORY - 1.0) / (MEMORY + 1.0)
        average = memory * progress.average + weight * ratio / progress.step_size**6
        total = memory * progress.weight + weight
        # After a step that was not finite, all later steps are shorter than that one.
        largest = jnp.where(finite, progress.largest, 0.8 * progress.step_size)
        wanted = jnp.where(total > 0, (average / total) ** (-1 / 6), progress.step_size)
        tuned = progress._replace(
            step_size=jnp.minimum(wanted, largest), largest=largest, weight=total, average=average
        )
        return where(warming, tuned, progress)

    def _tune_length(self, progress: _Progress, index: Int[Array, ""], num_warmup: Int[Array, ""]) -> _Progress:
        """Return the progress; at the end of the warm-up, momentum is set to last for the width of the posterior.

        The width is measured in the second half of the warm-up.
        """
        seen = (index >= num_warmup // 2) & (index < num_warmup)
        moments = progress.moments.seen(progress.states.position, seen)
        width = jnp.sqrt(jnp.sum(moments.variance))
        # If momentum lasted for less than a few steps, the chain would be a random walk.
        length = jnp.maximum(width, 5 * progress.step_size)
        now = (index == num_warmup - 1) & jnp.isfinite(width)
        return progress._replace(moments=moments, length=jnp.where(now, length, progress.length))


@dataclass(frozen=True)
class AdjustedMCLMC(AdaptiveChains):
    """Run the microcanonical dynamics with a Metropolis step, which removes the bias.

    Args:
        num_leapfrog: integration steps of a transition, two gradients each; every transition draws a new momentum.
    """

    initial_step_size: float = 0.3
    target_acceptance: float = 0.9
    num_leapfrog: int = 10

    def transition(self, target: Target) -> Transition:
        """Return the function that moves a chain to the end of a trajectory, accepted or not."""
        kernel = blackjax.adjusted_mclmc.build_kernel()
        return as_transition(
            lambda key, state, step_size, inverse_mass: kernel(
                key, state, target.logdensity, step_size, (self.num_leapfrog,), inverse_mass
            )
        )
