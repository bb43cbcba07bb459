"""Run the no-U-turn sampler, which chooses the length of each trajectory."""

from dataclasses import dataclass

import blackjax

from bmbo.inference.adaptive_chains import AdaptiveChains, Transition, as_transition
from bmbo.inference.inference_interface import Target


@dataclass(frozen=True)
class NUTS(AdaptiveChains):
    """Run several chains from maxima of the density; chains in parallel wait for the longest trajectory.

    Args:
        max_depth: a trajectory has at most 2^max_depth integration steps; 7 limits a transition to 128.
    """

    max_depth: int = 7

    def transition(self, target: Target) -> Transition:
        """Return the function that moves a chain to a point of a trajectory, which stops where it turns back."""
        kernel = blackjax.nuts.build_kernel()
        return as_transition(
            lambda key, state, step_size, inverse_mass: kernel(
                key, state, target.logdensity, step_size, inverse_mass, self.max_depth
            )
        )
