"""Recommend the configuration to use: the point of the top level with the best value that can be relied on."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.acquisition.runnable_points import exact_point
from bmbo.acquisition.top_level_climbs import climb, padded_points
from bmbo.history import Scale
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Recommendation


def recommend(
    key: PRNGKeyArray, posterior: Posterior, problem: Problem, scale: Scale, known: Sequence[tuple[float, ...]]
) -> Recommendation:
    """Return the point with the largest mean less one standard deviation.

    Args:
        key: for random starting points.
        posterior: what was learned.
        problem: what is optimised.
        scale: how the values of the top level were standardised.
        known: points to begin from besides random ones; an observed point with a good value is hard to beat.
    """
    unit, mean, std = _safest(key, posterior, padded_points(known, problem.space.dim), space=problem.space)
    low, middle, high = scale.restore(float(mean) + float(std) * np.asarray([-1.0, 0.0, 1.0]))
    return Recommendation(exact_point(unit, problem.space), problem.sign * float(middle), float(high - low) / 2)


@partial(jax.jit, static_argnames=("space",))
def _safest(
    key: PRNGKeyArray, posterior: Posterior, known: Float[Array, "e d"], *, space: Space
) -> tuple[Float[Array, " d"], Float[Array, ""], Float[Array, ""]]:
    def safe(drawn: Float[Array, "s b"]) -> Float[Array, " b"]:
        # The offset keeps the gradient finite where all draws agree.
        return jnp.mean(drawn, axis=0) - jnp.sqrt(jnp.var(drawn, axis=0) + 1e-10)

    candidates = climb(key, posterior, safe, known, space)
    best = candidates.unit[jnp.argmax(candidates.height)]
    drawn = posterior.draw(best[None])[:, 0, -1]
    return best, jnp.mean(drawn), jnp.std(drawn)
