"""Chains that tune themselves: a search for starts, then warm-up and sampling in one loop around one kernel.

The kernel appears once in the compiled program: compile time goes with the number of times the gradient does.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.diagnostics import mixing
from bmbo.inference.ensemble import search
from bmbo.inference.target import Info, Result, Target, as_start

Carry = TypeVar("Carry")


def where(condition: Bool[Array, ""], yes: Carry, no: Carry) -> Carry:
    """One of two trees of arrays."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(condition, a, b)

    return jax.tree.map(choose, yes, no)


class ChainState(NamedTuple):
    """BlackJAX's HMCState by other types: where a chain is, or where all chains are."""

    position: Float[Array, "*c p"]
    logdensity: Float[Array, "*c"]
    logdensity_grad: Float[Array, "*c p"]


Transition = Callable[[PRNGKeyArray, ChainState, Array, Array], tuple[ChainState, Array, Array]]
"""(key, state, step size, inverse mass [p]) -> state, acceptance probability, whether it diverged; of one chain."""


class Moments(NamedTuple):
    """Welford's running mean and sum of squared deviations, of each chain."""

    size: Int[Array, ""]
    mean: Float[Array, "c p"]
    squares: Float[Array, "c p"]

    @classmethod
    def none(cls, position: Float[Array, "c p"]) -> "Moments":
        """Before the first position."""
        return cls(jnp.zeros((), jnp.int32), jnp.zeros_like(position), jnp.zeros_like(position))

    def seen(self, position: Float[Array, "c p"], counts: Bool[Array, ""]) -> "Moments":
        """With one more position of each chain, if it counts."""
        size = self.size + 1
        delta = position - self.mean
        mean = self.mean + delta / size
        return where(counts, Moments(size, mean, self.squares + delta * (position - mean)), self)

    @property
    def variance(self) -> Float[Array, " p"]:
        """Within chains, which may sit in modes apart; one before there are two positions."""
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
    """Runs chains for a warm-up of traced length, then keeps every `thinning`-th position.

    `advance(index, warming, carry)` moves all chains once and gives their positions.
    """

    def body(index: Int[Array, ""], loop: tuple[Carry, Array]) -> tuple[Carry, Array]:
        carry, kept = loop
        carry, position = advance(index, index < num_warmup, carry)
        # A slot is written over until its last turn: cheaper than a branch, and one loop serves both phases.
        slot = jnp.maximum(index - num_warmup, 0) // thinning
        return carry, jax.lax.dynamic_update_index_in_dim(kept, position, slot, axis=0)

    kept = jnp.zeros((num_draws, *start.shape), start.dtype)
    carry, kept = jax.lax.fori_loop(0, num_warmup + num_draws * thinning, body, (carry, kept))
    return carry, jnp.swapaxes(kept, 0, 1)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["states", "averaging", "moments", "inverse_mass", "acceptance", "divergences"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Progress:
    """All that the loop carries: where chains are, what is being tuned, and sums of what is reported."""

    states: ChainState
    averaging: DualAveragingAdaptationState
    moments: Moments
    inverse_mass: Float[Array, " p"]
    acceptance: Float[Array, " c"]
    divergences: Float[Array, " c"]


@dataclass(frozen=True)
class AdaptiveChains(ABC):
    """Several chains with a Metropolis step, whose step size is tuned in the warm-up.

    Cold chains start from a search for the maximum of the density; warm ones from where they are told to.

    Args:
        num_chains: chains side by side.
        num_warmup: transitions before the first draw of a first fit.
        num_warmup_warm: transitions before the first draw when the start comes from an earlier fit.
        num_draws_per_chain: draws kept of each chain.
        thinning: transitions from one kept draw to the next.
        target_acceptance: what dual averaging steers the mean acceptance to.
        initial_step_size: where dual averaging begins; networks of some thousand weights settle between 5e-4 and 2e-3.
        jitter: each transition's step is scaled by a uniform factor within this of one, against periodic orbits.
        diagonal_metric: whether the warm-up also learns a scale for each parameter.
        num_search_steps: of Adam, for a first fit.
        learning_rate: of Adam, at its start.
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
        """One move of one chain."""

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """A transition to where the density is not finite is rejected, so a chain keeps its last finite position."""
        # One step of the search is an evaluation of the start, which the first transition needs.
        num_steps = jnp.where(warm, 1, max(self.num_search_steps, 1))
        num_warmup = jnp.where(warm, self.num_warmup_warm, self.num_warmup)
        found = search(target, as_start(start), num_steps, self.learning_rate)
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
        """Every chain after one transition, and the acceptance of each."""
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
        """Dual averaging of the step size and, in the middle third of the warm-up, moments for the metric."""
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
            # The step that suits one metric says little about the next.
            averaging=where(now, jax.vmap(init)(jax.vmap(final)(averaging)), averaging),
        )


def _inverse_mass(moments: Moments) -> Float[Array, " p"]:
    """Variances of the parameters, drawn to their mean as by ten more draws so that none is taken for constant."""
    variance = moments.variance
    weight = moments.size / (moments.size + 10.0)
    shrunk = weight * variance + (1 - weight) * jnp.mean(variance)
    return jnp.maximum(shrunk, jnp.finfo(shrunk.dtype).tiny)


def _finite_or(old: ChainState, new: ChainState) -> ChainState:
    """The new state of each chain where all of it is finite, else the old one."""
    finite = jnp.isfinite(new.logdensity) & jnp.all(jnp.isfinite(new.position), axis=1)
    return ChainState(
        jnp.where(finite[:, None], new.position, old.position),
        jnp.where(finite, new.logdensity, old.logdensity),
        jnp.where(finite[:, None], new.logdensity_grad, old.logdensity_grad),
    )
