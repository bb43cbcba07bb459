"""Choose by expected improvement at the top fidelity over the best value observed there."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bmbo.acquisition.batch_information import centre
from bmbo.acquisition.runnable_points import exact_point
from bmbo.acquisition.sampled_optima import find_optimum
from bmbo.acquisition.top_level_climbs import climb, padded_points
from bmbo.history import Dataset, History, Query, TrialRecord
from bmbo.history.same_point import same_points
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Select

IMPROVES = "improves"
"""Tag of a query that was chosen for its expected improvement."""

LOST = 20.0  # standard deviations below the mean at which 1 + z Phi(z) / phi(z) has three digits left in float32


@dataclass(frozen=True)
class Improvement(Select):
    """Choose the point of the top fidelity that most improves on the best value and on what is in flight.

    It returns one query at a time. Without a value at the top, it improves on the mean of all values.
    """

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        best = standardised_best(data, history)
        known = [] if best is None else units_at_top(history, history.told)
        taken = units_at_top(history, history.pending)
        floor = 0.0 if best is None else best
        unit = most_improving(key, posterior, history.problem, floor, known=known, taken=taken)
        return [Query(unit, history.problem.ladder.top)][:num]


@dataclass(frozen=True)
class ImproveAtTop(Select):
    """Let another rule choose a batch, and move its places at the top to where the expected improvement is largest.

    The other rule decides how many places of a batch go to which level. Information alone learns where the optimum is
    without evaluating there.
    """

    select: Select

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        key_batch, key_improve = jax.random.split(key)
        queries = self.select(key_batch, posterior, data, history, num)
        top, best = history.problem.ladder.top, standardised_best(data, history)
        if best is None:
            return queries
        known, taken = units_at_top(history, history.told), units_at_top(history, history.pending)
        improved: list[Query] = []
        for place, query in enumerate(queries):
            if query.level < top:
                improved.append(query)
                continue
            key_place = jax.random.fold_in(key_improve, place)
            unit = most_improving(key_place, posterior, history.problem, best, known=known, taken=taken)
            improved.append(Query(unit, top, {IMPROVES: True}))
            taken.append(unit)
        return improved


def standardised_best(data: Dataset, history: History) -> float | None:
    """Return the best value observed at the top as the surrogate saw it; None if there is none."""
    best = history.best
    if best is None or best.value is None:
        return None
    return data.scales[history.problem.ladder.top].standardised(history.problem.sign * best.value)


def units_at_top(history: History, trials: Iterable[TrialRecord]) -> list[tuple[float, ...]]:
    """Return the points of the trials at the top fidelity."""
    return [trial.query.unit for trial in trials if trial.query.level == history.problem.ladder.top]


def most_improving(
    key: PRNGKeyArray,
    posterior: Posterior,
    problem: Problem,
    best: float,
    *,
    known: Sequence[tuple[float, ...]],
    taken: Sequence[tuple[float, ...]] = (),
) -> tuple[float, ...]:
    """Return the point of the largest expected improvement over `best`, a standardised value of the top level.

    Known and taken points are returned only if there are no others. Otherwise a search in a space of few values would
    pay for the best point again and again.

    Args:
        key: for random starting points.
        posterior: what was learned.
        problem: what is optimised.
        best: the value to improve upon.
        known: points that were tried; the search also begins from them.
        taken: points of queries in flight and of other places of the batch. They count as observed with their means: no
            uncertainty is left there, nor where the draws move together with them.
    """
    rows, places = padded_points(known, problem.space.dim), padded_points(taken, problem.space.dim, smallest=8)
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
    return exact_point(found, problem.space)


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
    # The small terms keep the matrix regular in single precision when places nearly coincide. The noise is not added:
    # to repeat a place would inform about a noisy function, but not improve on it.
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
    candidates = climb(key_search, posterior, improvement, jnp.concatenate([known, optima]), space)
    asked, is_asked = jnp.concatenate([known, taken]), jnp.concatenate([is_known, is_taken])
    fresh = ~jnp.any(same_points(candidates.unit, asked) & is_asked[None], axis=1)
    allowed = fresh | ~jnp.any(fresh)
    return candidates.unit[jnp.argmax(jnp.where(allowed, candidates.height, -jnp.inf))]


def log_expected_improvement(mean: Float[Array, " b"], std: Float[Array, " b"]) -> Float[Array, " b"]:
    """Return the logarithm of E max(excess, 0) for a Gaussian excess.

    Computed from the draws themselves, it would be zero without a slope wherever no draw improves.
    """
    z = mean / std
    log_density = -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)
    # z Phi(z) + phi(z), for z < 0 as phi(z) (1 + z Phi(z) / phi(z)). The bracket tends to 1 / (z^2 + 3), which is used
    # where single precision loses the difference. Both branches are clipped, so that each is finite.
    above, below = jnp.where(z > 0.0, z, 0.0), jnp.where(z > 0.0, 0.0, jnp.maximum(z, -LOST))
    right = jnp.log(above * ndtr(above) + jnp.exp(-0.5 * above**2) / math.sqrt(2.0 * math.pi))
    ratio = jnp.exp(log_ndtr(below) + 0.5 * below**2 + 0.5 * math.log(2.0 * math.pi))
    bracket = jnp.where(z < -LOST, -jnp.log(z**2 + 3.0), jnp.log1p(below * ratio))
    return jnp.log(std) + jnp.where(z > 0.0, right, log_density + bracket)
