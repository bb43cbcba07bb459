"""The configuration to use: where the posterior mean of the top fidelity is best."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.acquisition.box import minimise_box
from bmbo.data import Dataset
from bmbo.problem import Problem
from bmbo.protocols import Posterior
from bmbo.space import Space

NUM_CANDIDATES = 1024
NUM_CLIMBS = 16
CLIMB_STEPS = 40


@dataclass(frozen=True)
class Recommendation:
    """A point, and what the surrogate predicts there in the objective's own units."""

    unit: tuple[float, ...]
    mean: float
    std: float


def recommend(
    key: PRNGKeyArray, posterior: Posterior, problem: Problem, data: Dataset, known: Sequence[tuple[float, ...]]
) -> Recommendation:
    """Maximises the mean of the draws at the top level over what can be run; `known` are points to begin from too."""
    # Padded to a power of two by repeating the last, so that few shapes recur.
    size = 1 << max(len(known) - 1, 0).bit_length()
    rows = [*known, *[known[-1] if known else (0.5,) * problem.space.dim] * (size - len(known))]
    extra = jnp.asarray(np.asarray(rows, np.float32).reshape(size, problem.space.dim))
    unit, mean, std = _recommend(key, posterior, extra, space=problem.space)
    top = problem.ladder.top
    shift, scale = float(data.mean[top]), float(data.std[top])
    snapped = problem.space.snap(np.asarray(unit, np.float64))
    return Recommendation(
        unit=tuple(float(u) for u in snapped),
        mean=problem.sign * (float(mean) * scale + shift),
        std=float(std) * scale,
    )


@partial(jax.jit, static_argnames=("space",))
def _recommend(
    key: PRNGKeyArray, posterior: Posterior, extra: Float[Array, "e d"], *, space: Space
) -> tuple[Float[Array, " d"], Float[Array, ""], Float[Array, ""]]:
    def mean(unit: Float[Array, "b d"]) -> Float[Array, " b"]:
        return jnp.mean(posterior.draw(unit)[..., -1], axis=0)

    uniform = jax.random.uniform(key, (NUM_CANDIDATES, space.dim), extra.dtype)
    candidates = space.snap(jnp.concatenate([uniform, extra]))
    heights = mean(candidates)
    start = candidates[jax.lax.top_k(heights, NUM_CLIMBS)[1]]
    climbed = space.snap(minimise_box(lambda unit: -mean(unit), start, max_steps=CLIMB_STEPS).unit)
    points = jnp.concatenate([climbed, start])
    best = points[jnp.argmax(mean(points))]
    drawn = posterior.draw(best[None])[:, 0, -1]
    return best, jnp.mean(drawn), jnp.std(drawn)
