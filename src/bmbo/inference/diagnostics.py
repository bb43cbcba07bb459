"""Measure whether the chains have mixed, and how many independent draws they are worth."""

import blackjax.diagnostics
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bmbo.inference.inference_interface import Info, Target

FEWEST_DRAWS = 4
"""Fewest draws of a chain: each of its halves then has a variance."""


LOW_ACCEPTANCE = 0.01
"""A chain with a lower acceptance practically does not move within a few thousand transitions."""


def rhat(chains: Float[Array, "c t k"]) -> Float[Array, " k"]:
    """Return split R-hat of each quantity, which compares the halves of chains, so that a single chain has a value too.

    It is infinite if no chain moved, and NaN if there are too few draws. There is no rank normalisation, because it
    would take as long to compile as a network. If the log density is among the quantities, it shows a difference in
    scale.
    """
    num_draws = chains.shape[1]
    if num_draws < FEWEST_DRAWS:
        return jnp.full(chains.shape[2], jnp.nan)
    halves = jnp.concatenate([chains[:, : num_draws // 2], chains[:, -(num_draws // 2) :]])
    value = jnp.reshape(blackjax.diagnostics.potential_scale_reduction(halves), (chains.shape[2],))
    return jnp.where(_frozen(chains), jnp.inf, value)


def ess(chains: Float[Array, "c t k"]) -> Float[Array, " k"]:
    """Return the effective number of draws of each quantity, at most c * t; zero if no chain moved."""
    if chains.shape[1] < FEWEST_DRAWS:
        return jnp.full(chains.shape[2], jnp.nan)
    value = jnp.reshape(blackjax.diagnostics.effective_sample_size(chains), (chains.shape[2],))
    return jnp.where(_frozen(chains), 0.0, value)


def mixing(target: Target, draws: Float[Array, "c t p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the largest R-hat and the smallest effective number of draws over the monitored quantities."""
    # One draw of every chain at a time: all at once would keep the activations of every draw in memory.
    seen = jax.lax.map(jax.vmap(target.monitor), jnp.swapaxes(draws, 0, 1))
    chains = jnp.swapaxes(seen, 0, 1)
    return jnp.max(rhat(chains)), jnp.min(ess(chains))


def complaints(info: Info) -> list[str]:
    """Return what a user must know about an inference, one sentence each.

    A large R-hat alone is no reason to complain, because the posterior of a network has many modes.
    """
    found: list[str] = []
    acceptance = np.asarray(info.acceptance)
    if np.any(acceptance < LOW_ACCEPTANCE):
        stuck = int(np.sum(acceptance < LOW_ACCEPTANCE))
        found.append(
            f"{stuck} of {acceptance.size} chains accepted fewer than 1 in 100 proposals (step size "
            f"{float(np.mean(np.asarray(info.step_size))):.3g}): their draws are hardly draws of the posterior"
        )
    if np.isinf(np.asarray(info.rhat)):
        found.append("no chain moved: the draws are the starts")
    return found


def _frozen(chains: Float[Array, "c t k"]) -> Bool[Array, " k"]:
    """Return which quantities never changed in any chain."""
    return jnp.all(chains == chains[:, :1], axis=(0, 1))
