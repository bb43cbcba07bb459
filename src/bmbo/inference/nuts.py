"""The no-U-turn sampler: trajectories of a length of their own."""

from dataclasses import dataclass

import blackjax
from jaxtyping import Array, PRNGKeyArray

from bmbo.inference.adaptive_chains import AdaptiveChains, ChainState, Transition
from bmbo.inference.target import Target


@dataclass(frozen=True)
class NUTS(AdaptiveChains):
    """Several chains from maxima of the density; side by side, all wait for the longest trajectory.

    Args:
        max_depth: a trajectory has at most 2^max_depth integration steps; 7 keeps the worst transition at 128.
    """

    max_depth: int = 7

    def transition(self, target: Target) -> Transition:
        """A point of a trajectory that stops where it turns back."""
        kernel = blackjax.nuts.build_kernel()

        def move(
            key: PRNGKeyArray, state: ChainState, step_size: Array, inverse_mass: Array
        ) -> tuple[ChainState, Array, Array]:
            moved, info = kernel(key, state, target.logdensity, step_size, inverse_mass, self.max_depth)
            return ChainState(*moved), info.acceptance_rate, info.is_divergent

        return move
