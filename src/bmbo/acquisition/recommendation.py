"""Points of the top fidelity that are good in themselves: what to use, and where to look for better."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bmbo.acquisition.box_minimiser import minimise_box
from bmbo.acquisition.information import centre
from bmbo.acquisition.sampled_optima import find_optimum
from bmbo.history.scaling import Scale
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior

NUM_CANDIDATES = 512
NUM_CLIMBS = 16
CLIMB_STEPS = 40
SAME = 1e-6  # of a side of the cube: what single precision makes of a point that was snapped twice
LOST = 20.0  # standard deviations below the mean at which 1 + z Phi(z) / phi(z) is down to three digits in float32

Criterion = Callable[[Float[Array, "s b"]], Float[Array, " b"]]
"""From the draws of the top level at some points to how good the points are."""


@dataclass(frozen=True)
class Recommendation:
    """A point, and what the surrogate predicts there in the objective's own units."""

    unit: tuple[float, ...]
    mean: float
    std: float


def recommend(
    key: PRNGKeyArray, posterior: Posterior, problem: Problem, scale: Scale, known: Sequence[tuple[float, ...]]
) -> Recommendation:
    """The point with the best value that can be relied on: mean less one standard deviation.

    `scale` is what standardised the values of the top; `known` are points to begin from besides random ones: an
    observed point with a good value is hard to beat.
    """
    unit, mean, std = _safest(key, posterior, _rows(known, problem.space.dim), space=problem.space)
    low, middle, high = scale.restore(float(mean) + float(std) * np.asarray([-1.0, 0.0, 1.0]))
    return Recommendation(_exact(unit, problem.space), problem.sign * float(middle), float(high - low) / 2)


def most_improving(
    key: PRNGKeyArray,
    posterior: Posterior,
    problem: Problem,
    best: float,
    *,
    known: Sequence[tuple[float, ...]],
    taken: Sequence[tuple[float, ...]] = (),
) -> tuple[float, ...]:
    """The point of the largest expected improvement over `best`, a standardised value of the top level.

    `known` are points that were tried, to begin from. What is `taken`, by queries in flight or by other places of
    the batch, counts as observed with its mean: it is no longer uncertain there, nor where the draws go along with it.
    Neither is asked for again, as long as there is anything else: of what has a few values only, the best one would
    be paid for over and over.
    """
    rows, places = _rows(known, problem.space.dim), _rows(taken, problem.space.dim, smallest=8)
    found = _improving(
        key,
        posterior,
        jnp.asarray(best, rows.dtype),
        known=rows,
        is_known=jnp.arange(rows.shape[0]) < len(known),
        taken=places,
        is_taken=jnp.arange(places.shape[0]) < len(taken),
        space=problem.space,
    )
    return _exact(found, problem.space)


def _rows(known: Sequence[tuple[float, ...]], dim: int, smallest: int = 32) -> Float[Array, "e d"]:
    """Points as an array, padded to a power of two by the last, so that few shapes recur."""
    size = max(smallest, 1 << max(len(known) - 1, 0).bit_length())
    padding = [known[-1] if known else (0.5,) * dim] * (size - len(known))
    return jnp.asarray(np.asarray([*known, *padding], np.float32).reshape(size, dim))


def _exact(unit: Float[Array, " d"], space: Space) -> tuple[float, ...]:
    """Snapped once more on the host, where a grid's points are exact in float64."""
    return tuple(float(u) for u in space.snap(np.asarray(unit, np.float64)))


@partial(jax.jit, static_argnames=("space",))
def _safest(
    key: PRNGKeyArray, posterior: Posterior, known: Float[Array, "e d"], *, space: Space
) -> tuple[Float[Array, " d"], Float[Array, ""], Float[Array, ""]]:
    def safe(drawn: Float[Array, "s b"]) -> Float[Array, " b"]:
        # The offset keeps the gradient finite where all draws agree.
        return jnp.mean(drawn, axis=0) - jnp.sqrt(jnp.var(drawn, axis=0) + 1e-10)

    candidates = _candidates(key, posterior, safe, known, space)
    best = candidates.unit[jnp.argmax(candidates.height)]
    drawn = posterior.draw(best[None])[:, 0, -1]
    return best, jnp.mean(drawn), jnp.std(drawn)


@partial(jax.jit, static_argnames=("space",))
def _improving(
    key: PRNGKeyArray,
    posterior: Posterior,
    best: Float[Array, ""],
    *,
    known: Float[Array, "e d"],
    is_known: Bool[Array, " e"],
    taken: Float[Array, "t d"],
    is_taken: Bool[Array, " t"],
    space: Space,
) -> Float[Array, " d"]:
    there = posterior.draw(taken)[..., -1]
    floor = jnp.maximum(best, jnp.max(jnp.where(is_taken, jnp.mean(there, axis=0), -jnp.inf)))
    # Padding has no covariance with anything.
    believed = jnp.where(is_taken, centre(there), 0.0)
    covariance = believed.T @ believed
    # Places that nearly coincide must not make the matrix singular in single precision. No noise is added: the same
    # place once more would tell something of a noisy function, but not improve on it.
    weights = jnp.linalg.inv(covariance + jnp.diag(1e-6 * jnp.diag(covariance) + 1e-10))

    def improvement(drawn: Float[Array, "s b"]) -> Float[Array, " b"]:
        centred = centre(drawn)
        between = centred.T @ believed
        variance = jnp.sum(centred**2, axis=0) - jnp.sum((between @ weights) * between, axis=1)
        # The offset keeps the gradient finite where nothing is left to learn.
        std = jnp.sqrt(jnp.maximum(variance, 0.0) + 1e-12)
        return log_expected_improvement(jnp.mean(drawn, axis=0) - floor, std)

    key_optima, key_search = jax.random.split(key)
    optima = find_optimum(key_optima, posterior, space.dim, num_starts=2, snap=space.snap).unit
    candidates = _candidates(key_search, posterior, improvement, jnp.concatenate([known, optima]), space)
    asked, is_asked = jnp.concatenate([known, taken]), jnp.concatenate([is_known, is_taken])
    fresh = ~jnp.any(_coincide(candidates.unit, asked) & is_asked[None], axis=1)
    allowed = fresh | ~jnp.any(fresh)
    return candidates.unit[jnp.argmax(jnp.where(allowed, candidates.height, -jnp.inf))]


def _coincide(left: Float[Array, "b d"], right: Float[Array, "e d"]) -> Bool[Array, "b e"]:
    """Which points are the same, but for rounding in single precision."""
    return jnp.max(jnp.abs(left[:, None] - right[None]), axis=-1) < SAME


def log_expected_improvement(mean: Float[Array, " b"], std: Float[Array, " b"]) -> Float[Array, " b"]:
    """Logarithm of E max(excess, 0) for a Gaussian excess.

    From the draws themselves it would be zero, with no slope, wherever none of them improves.
    """
    z = mean / std
    log_density = -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)
    # z Phi(z) + phi(z), for z < 0 as phi(z) (1 + z Phi(z) / phi(z)); the bracket tends to 1 / (z^2 + 3), and where
    # single precision loses it in the difference that is what is left of it. Clipped, so that each branch is finite.
    above, below = jnp.where(z > 0.0, z, 0.0), jnp.where(z > 0.0, 0.0, jnp.maximum(z, -LOST))
    right = jnp.log(above * ndtr(above) + jnp.exp(-0.5 * above**2) / math.sqrt(2.0 * math.pi))
    ratio = jnp.exp(log_ndtr(below) + 0.5 * below**2 + 0.5 * math.log(2.0 * math.pi))
    bracket = jnp.where(z < -LOST, -jnp.log(z**2 + 3.0), jnp.log1p(below * ratio))
    return jnp.log(std) + jnp.where(z > 0.0, right, log_density + bracket)


class Candidates(NamedTuple):
    """Points that can be run, and how good they are by a criterion."""

    unit: Float[Array, "b d"]
    height: Float[Array, " b"]


def _candidates(
    key: PRNGKeyArray, posterior: Posterior, criterion: Criterion, extra: Float[Array, "e d"], space: Space
) -> Candidates:
    """Where climbs from the best of random points and extra ones end, then all these points themselves."""

    def height(unit: Float[Array, "b d"]) -> Float[Array, " b"]:
        return criterion(posterior.draw(unit)[..., -1])

    uniform = jax.random.uniform(key, (NUM_CANDIDATES, space.dim), extra.dtype)
    scattered = space.snap(jnp.concatenate([uniform, extra]))
    heights = height(scattered)
    start = scattered[jax.lax.top_k(heights, NUM_CLIMBS)[1]]
    climbed = space.snap(minimise_box(lambda unit: -height(unit), start, max_steps=CLIMB_STEPS).unit)
    return Candidates(jnp.concatenate([climbed, scattered]), jnp.concatenate([height(climbed), heights]))
