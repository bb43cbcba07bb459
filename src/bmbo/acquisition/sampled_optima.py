"""Find where each drawn function is best: these maxima are the samples of f*."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.acquisition.box_minimiser import minimise_box
from bmbo.protocols import Posterior

OPTIMUM_CANDIDATES = 512
"""Random points at which every drawn function is evaluated; the same number for our methods and for the baselines."""
OPTIMUM_STARTS = 2
"""Climbs for each drawn function."""
OPTIMUM_STEPS = 20
"""Evaluations in each of these climbs."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Optimum:
    """Hold the maximiser and the maximum of each drawn function."""

    unit: Float[Array, "s d"]
    value: Float[Array, " s"]


def find_optimum(
    key: PRNGKeyArray,
    posterior: Posterior,
    dim: int,
    *,
    level: int = -1,
    num_candidates: int = 512,
    num_starts: int = 4,
    max_steps: int = 30,
    extra: Float[Array, "e d"] | None = None,
    snap: Callable[[Float[Array, "q d"]], Float[Array, "q d"]] | None = None,
) -> Optimum:
    """Return the maximum of one level of every drawn function over the cube.

    The search scores random points for all draws, and then makes a few climbs per draw. `extra` are further points to
    begin from, such as the best observed ones. `snap` returns the points that can be run; without it, every point of
    the cube can be run.
    """
    candidates = jax.random.uniform(key, (num_candidates, dim))
    if extra is not None:
        candidates = jnp.concatenate([candidates, extra.astype(candidates.dtype)])
    if snap is not None:
        candidates = snap(candidates)
    score = posterior.draw(candidates)[..., level]
    start = _spread_best(score, candidates, num_starts)

    def height(unit: Float[Array, "b d"]) -> Float[Array, " b"]:
        return posterior.draw_each(unit.reshape(start.shape))[..., level].reshape(-1)

    minimum = minimise_box(lambda unit: -height(unit), start.reshape(-1, dim), max_steps=max_steps)
    unit, value = minimum.unit, -minimum.value
    if snap is not None:
        # Snapping may undo what a climb gained. So the best candidate, which can be run as it is, is compared too.
        unit = jnp.concatenate([snap(unit).reshape(start.shape), start[:, :1]], axis=1)
        value = jnp.concatenate([height(snap(minimum.unit)).reshape(start.shape[:2]), _best(score)], axis=1)
    else:
        unit, value = unit.reshape(start.shape), value.reshape(start.shape[:2])
    winner = jnp.argmax(jnp.where(jnp.isnan(value), -jnp.inf, value), axis=1)[:, None]
    return Optimum(
        unit=jnp.take_along_axis(unit, winner[..., None], axis=1)[:, 0],
        value=jnp.take_along_axis(value, winner, axis=1)[:, 0],
    )


def _best(score: Float[Array, "s q"]) -> Float[Array, "s 1"]:
    return jnp.max(score, axis=1, keepdims=True)


def _spread_best(score: Float[Array, "s q"], candidates: Float[Array, "q d"], num_starts: int) -> Float[Array, "s r d"]:
    """Return the best candidates of each draw, each far from the better ones, so that climbs end on different hills."""
    num, dim = candidates.shape
    # Two mean spacings: a candidate that is nearer to a better one is probably on the same hill.
    radius = 2.0 * num ** (-1.0 / dim)
    lowest = jnp.min(score, axis=1, keepdims=True)
    span = jnp.max(score, axis=1, keepdims=True) - lowest + 1.0

    def pick(score: Float[Array, "s q"], _: None) -> tuple[Float[Array, "s q"], Float[Array, "s d"]]:
        chosen = jnp.argmax(score, axis=1)
        unit = candidates[chosen]
        distance = jnp.sum((unit[:, None] - candidates[None]) ** 2, axis=-1)
        # Near ones follow after all far ones but keep their order, in case nothing is far. The chosen one comes last.
        demoted = jnp.where(distance < radius**2, score - span, score)
        demoted = jnp.where(jnp.arange(num)[None] == chosen[:, None], -jnp.inf, demoted)
        return demoted, unit

    _, units = lax.scan(pick, score, length=num_starts)
    return jnp.swapaxes(units, 0, 1)
