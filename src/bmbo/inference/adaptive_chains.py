"""Run chains that tune themselves: a search for starts, then warm-up and sampling in one loop around one kernel.

The kernel appears only once in the compiled program, because compile time grows with the number of gradients in it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.density_maxima import search_unless_warm
from bmbo.inference.diagnostics import mixing
from bmbo.inference.inference_interface import Info, Result, Target

Carry = TypeVar("Carry")


def where(condition: Bool[Array, ""], yes: Carry, no: Carry) -> Carry:
    """Return one of two trees of arrays."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(condition, a, b)

    return jax.tree.map(choose, yes, no)


class ChainState(NamedTuple):
    """Hold BlackJAX's HMCState with exact types: the state of one chain, or of all chains."""

    position: Float[Array, "*c p"]
    logdensity: Float[Array, "*c"]
    logdensity_grad: Float[Array, "*c p"]


Transition = Callable[[PRNGKeyArray, ChainState, Array, Array], tuple[ChainState, Array, Array]]
"""(key, state, step size, inverse mass [p]) -> state, acceptance probability, whether it diverged. For one chain."""


def as_transition(kernel: Callable[[PRNGKeyArray, ChainState, Array, Array], tuple[Any, Any]]) -> Transition:
    """Return the move of a BlackJAX kernel with a Metropolis step."""

    def move(
        key: PRNGKeyArray, state: ChainState, step_size: Array, inverse_mass: Array
    ) -> tuple[ChainState, Array, Array]:
        moved, info = kernel(key, state, step_size, inverse_mass)
        return ChainState(*moved), info.acceptance_rate, info.is_divergent

    return move


class Moments(NamedTuple):
    """Hold Welford's running mean and sum of squared deviations of each chain."""

    size: Int[Array, ""]
    mean: Float[Array, "c p"]
    squares: Float[Array, "c p"]

    @classmethod
    def none(cls, position: Float[Array, "c p"]) -> "Moments":
        """Return the moments before the first position."""
        return cls(jnp.zeros((), jnp.int32), jnp.zeros_like(position), jnp.zeros_like(position))

    def seen(self, position: Float[Array, "c p"], counts: Bool[Array, ""]) -> "Moments":
        """Return the moments with one more position of each chain, if `counts` is true."""
        size = self.size + 1
        delta = position - self.mean
        mean = self.mean + delta / size
        return where(counts, Moments(size, mean, self.squares + delta * (position - mean)), self)

    @property
    def variance(self) -> Float[Array, " p"]:
        """Return the variance within chains, which may be in different modes; 1 for fewer than two positions."""
        pooled = jnp.mean(self.squares, axis=0) / jnp.maximum(self.size - 1, 1)
        return jnp.where(self.size > 1, pooled, 1.0)


def collect(
    advance: Callable[[Int[Array, ""], Bool[Array, ""], Carry], tuple[Carry, Array]],
    carry: Carry,
    start: Float[Array, "c p"],
    *,
    num_warmup: Int[Array, ""] | int,
    num_draws: int,
    thinning: int,
) -> tuple[Carry, Float[Array, "c t p"]]:
    """Return the last carry and every `thinning`-th position after a warm-up, whose length may be traced.

    `advance(index, warming, carry)` moves all chains once and returns the new carry and their positions.
    """

    def body(index: Int[Array, ""], loop: tuple[Carry, Array]) -> tuple[Carry, Array]:
        carry, kept = loop
        carry, position = advance(index, index < num_warmup, carry)
        # A slot is overwritten until its last turn. This is cheaper than a branch, and one loop serves both phases.
        slot = jnp.maximum(index - num_warmup, 0) // thinning
        return carry, jax.lax.dynamic_update_index_in_dim(kept, position, slot, axis=0)

    kept = jnp.zeros((num_draws, *start.shape), start.dtype)
    carry, kept = jax.lax.fori_loop(0, num_warmup + num_draws * thinning, body, (carry, kept))
    return carry, jnp.swapaxes(kept, 0, 1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Progress:
    """Hold what the loop carries: the states of the chains, what is tuned, and the sums that are reported."""

    states: ChainState
    averaging: DualAveragingAdaptationState
    moments: Moments
    inverse_mass: Float[Array, " p"]
    acceptance: Float[Array, " c"]
    divergences: Float[Array, " c"]


@dataclass(frozen=True)
class AdaptiveChains(ABC):
    """Run several chains with a Metropolis step, whose step size is tuned in the warm-up.

    Cold chains begin with a search for the maximum of the density. Warm chains begin at the given start.

    Args:
        num_chains: number of chains, which run in parallel.
        num_warmup: transitions before the first draw of a first fit.
        num_warmup_warm: transitions before the first draw if the start comes from an earlier fit.
        num_draws_per_chain: number of draws kept from each chain.
        thinning: transitions from one kept draw to the next.
        target_acceptance: mean acceptance probability that dual averaging aims at.
        initial_step_size: where dual averaging begins; networks of a few thousand weights end between 5e-4 and 2e-3.
        jitter: the step of each transition is multiplied by a random factor from 1 - jitter to 1 + jitter, which breaks
            periodic orbits.
        diagonal_metric: whether the warm-up also learns a scale for each parameter.
        num_search_steps: steps of Adam, for a first fit.
        learning_rate: learning rate of Adam at its start.
    """

    num_chains: int = 16
    num_warmup: int = 300
    num_warmup_warm: int = 100
    num_draws_per_chain: int = 20
    thinning: int = 5
    target_acceptance: float = 0.8
    initial_step_size: float = 0.002
    jitter: float = 0.2
    diagonal_metric: bool = False
    num_search_steps: int = 2000
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        if min(self.num_warmup, self.num_warmup_warm) < 1:
            raise ValueError("at least one transition of warm-up is needed to settle on a step size")

    @abstractmethod
    def transition(self, target: Target) -> Transition:
        """Return the function that moves one chain once."""

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """Return draws; a transition to where the density is not finite is rejected."""
        num_warmup = jnp.where(warm, self.num_warmup_warm, self.num_warmup)
        found = search_unless_warm(
            target, start, warm, num_steps=self.num_search_steps, learning_rate=self.learning_rate
        )
        init, _, final = dual_averaging_adaptation(self.target_acceptance)
        zeros = jnp.zeros_like(found.position[:, 0])
        progress = Progress(
            states=ChainState(found.position, found.logdensity, found.gradient),
            averaging=jax.vmap(init)(zeros + self.initial_step_size),
            moments=Moments.none(found.position),
            inverse_mass=jnp.ones_like(found.position[0]),
            acceptance=zeros,
            divergences=zeros,
        )
        transitions = jax.vmap(self.transition(target), (0, 0, 0, None))

        def advance(index: Int[Array, ""], warming: Bool[Array, ""], old: Progress) -> tuple[Progress, Array]:
            new, acceptance = self._moved(jax.random.fold_in(key, index), transitions, warming, old)
            return self._tuned(new, acceptance, index, num_warmup), new.states.position

        progress, draws = collect(
            advance,
            progress,
            found.position,
            num_warmup=num_warmup,
            num_draws=self.num_draws_per_chain,
            thinning=self.thinning,
        )
        info = Info(
            progress.acceptance / (self.num_draws_per_chain * self.thinning),
            progress.divergences,
            jax.vmap(final)(progress.averaging),
            *mixing(target, draws),
        )
        return Result(draws.reshape(-1, draws.shape[-1]), progress.states.position, info)

    def _moved(
        self, key: PRNGKeyArray, transitions: Transition, warming: Bool[Array, ""], progress: Progress
    ) -> tuple[Progress, Float[Array, " c"]]:
        """Return the progress after one transition of every chain, and the acceptance of each chain."""
        key_jitter, key_chains = jax.random.split(key)
        averaging = progress.averaging
        step = jnp.exp(jnp.where(warming, averaging.log_step_size, averaging.log_step_size_avg))
        step = step * jax.random.uniform(key_jitter, step.shape, minval=1 - self.jitter, maxval=1 + self.jitter)
        keys = jax.random.split(key_chains, self.num_chains)
        states, acceptance, diverged = transitions(keys, progress.states, step, progress.inverse_mass)
        acceptance = jnp.where(jnp.isfinite(acceptance), acceptance, 0.0)
        counted = jnp.where(warming, 0.0, 1.0)
        moved = replace(
            progress,
            states=_finite_or(progress.states, states),
            acceptance=progress.acceptance + counted * acceptance,
            divergences=progress.divergences + counted * diverged,
        )
        return moved, acceptance

    def _tuned(
        self, progress: Progress, acceptance: Float[Array, " c"], index: Int[Array, ""], num_warmup: Int[Array, ""]
    ) -> Progress:
        """Return the progress with a tuned step size and, if wanted, a metric.

        The moments for the metric come from the middle third of the warm-up.
        """
        init, update, final = dual_averaging_adaptation(self.target_acceptance)
        averaging = jax.vmap(update)(progress.averaging, acceptance)
        averaging = where(index < num_warmup, averaging, progress.averaging)
        if not self.diagonal_metric:
            return replace(progress, averaging=averaging)
        begin, end = num_warmup // 3, 2 * num_warmup // 3
        moments = progress.moments.seen(progress.states.position, (index >= begin) & (index < end))
        now = index == end
        return replace(
            progress,
            moments=moments,
            inverse_mass=jnp.where(now, _inverse_mass(moments), progress.inverse_mass),
            # The step size that suits the old metric says little about the new one.
            averaging=where(now, jax.vmap(init)(jax.vmap(final)(averaging)), averaging),
        )


def _inverse_mass(moments: Moments) -> Float[Array, " p"]:
    """Return the variances of the parameters, shrunk towards their mean as by ten more draws.

    Without this, few draws could show a parameter as constant.
    """
    variance = moments.variance
    weight = moments.size / (moments.size + 10.0)
    shrunk = weight * variance + (1 - weight) * jnp.mean(variance)
    return jnp.maximum(shrunk, jnp.finfo(shrunk.dtype).tiny)


def _finite_or(old: ChainState, new: ChainState) -> ChainState:
    """Return the new state of each chain if all of it is finite, else the old one."""
    finite = jnp.isfinite(new.logdensity) & jnp.all(jnp.isfinite(new.position), axis=1)
    return ChainState(
        jnp.where(finite[:, None], new.position, old.position),
        jnp.where(finite, new.logdensity, old.logdensity),
        jnp.where(finite[:, None], new.logdensity_grad, old.logdensity_grad),
    )
