"""Have the chains mixed, and how many independent draws are they worth?"""

import blackjax.diagnostics
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from bmbo.inference.target import Info, Target

FEWEST_DRAWS = 4
"""Draws a chain needs for its halves to have a variance each."""


LOW_ACCEPTANCE = 0.01
"""Below this a chain stands still for all that a few thousand transitions can show."""


def rhat(chains: Float[Array, "c t k"]) -> Float[Array, " k"]:
    """Split R-hat of each quantity: the halves of chains are compared, so that a single chain has one too.

    Infinite where no chain moved at all, NaN with too few draws to tell. Without rank normalisation, which would take
    as long to compile as a network: the log density, if it is among the quantities, shows a difference in scale.
    """
    num_draws = chains.shape[1]
    if num_draws < FEWEST_DRAWS:
        return jnp.full(chains.shape[2], jnp.nan)
    halves = jnp.concatenate([chains[:, : num_draws // 2], chains[:, -(num_draws // 2) :]])
    value = jnp.reshape(blackjax.diagnostics.potential_scale_reduction(halves), (chains.shape[2],))
    return jnp.where(_frozen(chains), jnp.inf, value)


def ess(chains: Float[Array, "c t k"]) -> Float[Array, " k"]:
    """Effective number of draws of each quantity, out of c * t; zero where no chain moved."""
    if chains.shape[1] < FEWEST_DRAWS:
        return jnp.full(chains.shape[2], jnp.nan)
    value = jnp.reshape(blackjax.diagnostics.effective_sample_size(chains), (chains.shape[2],))
    return jnp.where(_frozen(chains), 0.0, value)


def mixing(target: Target, draws: Float[Array, "c t p"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The worst R-hat and the worst effective number of draws, over the monitored quantities."""
    # One draw of every chain at a time: all at once would keep the activations of every draw.
    seen = jax.lax.map(jax.vmap(target.monitor), jnp.swapaxes(draws, 0, 1))
    chains = jnp.swapaxes(seen, 0, 1)
    return jnp.max(rhat(chains)), jnp.min(ess(chains))


def complaints(info: Info) -> list[str]:
    """What a user must know of an inference, one sentence each; R-hat alone is none, for networks have many modes."""
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
    """Which quantities never changed in any chain."""
    return jnp.all(chains == chains[:, :1], axis=(0, 1))
