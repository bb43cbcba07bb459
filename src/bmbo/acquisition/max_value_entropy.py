"""Choose by max-value entropy search over levels (Takeno et al. 2020): what an observation tells about f*, per cost.

A known f* implies f_M(x) <= f* at every point x. This reduces the entropy of an observation y_m(x). For standardised
and jointly Gaussian y_m and f_M with correlation rho, and gamma = (f* - mean f_M) / std f_M, the reduction is

    H(y) - H(y | f_M <= f*) = rho^2 gamma r / 2 + E[w log w],   r = phi(gamma) / Phi(gamma),
    w(y) = Phi((gamma - rho y) / sqrt(1 - rho^2)) / Phi(gamma),  y standard Gaussian,

which at rho = 1 is Wang and Jegelka's gamma r / 2 - log Phi(gamma). The expectation is a one-dimensional integral.
"""

import math
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bmbo.acquisition.baseline_search import (
    Candidate,
    CandidateSearch,
    Moments,
    best_candidate,
    find_optima,
    in_flight,
    moments,
)
from bmbo.acquisition.batch_information import centre, shifted_draws
from bmbo.acquisition.batch_invariants import Pending
from bmbo.acquisition.sampled_optima import Optimum
from bmbo.history import Dataset, History, Query
from bmbo.problem import Space
from bmbo.protocols import Posterior, Select

REACH = 7.0  # standard deviations on each side beyond which a Gaussian has no mass in single precision
SPACING = 0.1  # of the nodes: the trapezoidal rule is exact to rounding for functions that are smooth over two spacings
STEEPEST = 0.995  # squared correlation at which w becomes a step of less than one spacing
LOWEST_GAMMA = -5.0  # f* is a maximum: this far below a mean it is an error of the draws, and w leaves the nodes


def entropy_reduction(gamma: Float[Array, "*k"], squared: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """Return by how many nats f_M <= f* reduces the entropy of an observation with this squared correlation with f_M.

    Above `STEEPEST`, the value is interpolated to the closed form at one.
    """
    gamma = jnp.maximum(gamma, LOWEST_GAMMA)
    log_share = log_ndtr(gamma)
    ratio = jnp.exp(-0.5 * gamma**2 - 0.5 * math.log(2.0 * math.pi) - log_share)
    capped = jnp.minimum(squared, STEEPEST)
    nodes = np.arange(-REACH, REACH + 0.5 * SPACING, SPACING, dtype=np.float32).reshape(*[1] * gamma.ndim, -1)
    weight = SPACING * np.exp(-0.5 * nodes**2) / math.sqrt(2.0 * math.pi)
    # The offset keeps the gradient of the root finite at zero correlation.
    rho = jnp.sqrt(capped + 1e-12)
    log_w = log_ndtr((gamma[..., None] - rho[..., None] * nodes) / jnp.sqrt(1.0 - capped)[..., None])
    log_w = log_w - log_share[..., None]
    smooth = 0.5 * capped * gamma * ratio + jnp.sum(weight * jnp.exp(log_w) * log_w, axis=-1)
    exact = 0.5 * gamma * ratio - log_share
    # The distance to the closed form is in proportion to the width of the step.
    missing = jnp.sqrt(jnp.maximum((1.0 - squared) / (1.0 - STEEPEST), 1e-12))
    return jnp.where(squared > STEEPEST, missing * smooth + (1.0 - missing) * exact, smooth)


def squared_correlation(at: Moments, noise: Float[Array, " m"]) -> Float[Array, "q m"]:
    """Return the squared correlation of an observation of each level with the top level's function at that point."""
    observed = at.variance + noise[None]
    return jnp.minimum(at.with_top**2 / (observed * at.variance[:, -1:]), 1.0)


@dataclass(frozen=True)
class MaxValue(Select):
    """Choose the places with the most information about f* per cost, one after the other.

    A taken place is one in flight or earlier in the batch. Its value is unknown: it is drawn together with f*, and the
    next place is scored given both, on average over the draws.

    Args:
        num_optima: number of draws of f*, evenly spaced over their distribution.
        observation_noise: whether to score what is observed; without it, noise-free functions.
        num_shifts: how often the top level is moved among the draws to measure the correlation between levels that
            chance alone shows, which is then subtracted; with zero, nothing is subtracted.
        search: how the place is searched.
    """

    num_optima: int = 10
    observation_noise: bool = True
    num_shifts: int = 8
    search: CandidateSearch = field(default_factory=CandidateSearch)

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        del data
        problem, pending = history.priced, [trial.query for trial in history.pending]
        key_optimum, key_places = jax.random.split(key)
        optimum = find_optima(key_optimum, posterior, space=problem.space, search=self.search)
        costs = jnp.asarray(problem.ladder.costs, jnp.float32)
        queries: list[Query] = []
        for place in range(num):
            taken = Pending.of([*pending, *queries], problem.space.dim)
            key_place = jax.random.fold_in(key_places, place)
            found = _choose(key_place, posterior, optimum, costs, taken, space=problem.space, config=self)
            queries.append(found.query(problem.space))
        return queries


def spread(value: Float[Array, " s"], num: int) -> Int[Array, " k"]:
    """Return which draws represent the whole distribution of a value: the middles of equal groups in its order."""
    num = min(num, value.shape[0])
    middles = ((np.arange(num) + 0.5) * value.shape[0] / num).astype(np.int32)
    return jnp.argsort(value)[middles]


@partial(jax.jit, static_argnames=("space", "config"))
def _choose(
    key: PRNGKeyArray,
    posterior: Posterior,
    optimum: Optimum,
    costs: Float[Array, " m"],
    pending: Pending,
    *,
    space: Space,
    config: MaxValue,
) -> Candidate:
    key_noise, key_chance, key_search = jax.random.split(key, 3)
    values, taken = in_flight(posterior, pending)
    chosen = spread(optimum.value, config.num_optima)
    noise = posterior.noise if config.observation_noise else jnp.zeros_like(posterior.noise)
    deviation = jnp.sqrt(posterior.noise)[pending.level]
    fantasy = values[chosen] + deviation[None] * jax.random.normal(key_noise, (chosen.shape[0], values.shape[1]))
    moved = fantasy @ taken.whiten.T
    some = space.snap(jax.random.uniform(key_chance, (config.search.num_candidates // 2, space.dim)))
    chance = chance_correlation(posterior.draw(some), num_shifts=config.num_shifts)

    def score(unit: Float[Array, "q d"]) -> Float[Array, "q m"]:
        at = moments(posterior.draw(unit), taken)
        squared = squared_correlation(at, noise)
        # The top level's own correlation is not an estimate.
        estimated = jnp.maximum((squared - chance[None]) / (1.0 - chance[None]), 0.0)
        squared = jnp.concatenate([estimated[:, :-1], squared[:, -1:]], axis=1)
        mean = at.mean[None, :, -1] + jnp.einsum("ik,kq->iq", moved, at.projected[..., -1])
        gamma = (optimum.value[chosen][:, None] - mean) / jnp.sqrt(at.variance[None, :, -1])
        shape = (*gamma.shape, costs.shape[0])
        reduction = entropy_reduction(jnp.broadcast_to(gamma[..., None], shape), jnp.broadcast_to(squared[None], shape))
        return jnp.mean(reduction, axis=0) / costs[None]

    best = optimum.unit[chosen].astype(some.dtype)
    return best_candidate(key_search, score, best, space=space, search=config.search)


def chance_correlation(drawn: Float[Array, "s q m"], *, num_shifts: int) -> Float[Array, " m"]:
    """Return the largest squared correlation of each level with the top level of other draws, as a mean over shifts."""
    if num_shifts == 0:
        return jnp.zeros(drawn.shape[-1], drawn.dtype)
    centred = centre(drawn)
    top = shifted_draws(centred[..., -1], num_shifts)
    variance = jnp.sum(centred**2, axis=0)
    product = variance * variance[:, -1:]
    squared = jnp.einsum("sqm,isq->iqm", centred, top) ** 2 / jnp.where(product > 0.0, product, 1.0)[None]
    return jnp.minimum(jnp.mean(jnp.max(squared, axis=1), axis=0), 0.5)
