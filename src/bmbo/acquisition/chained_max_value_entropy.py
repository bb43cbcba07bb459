"""Choose as DNN-MFBO does (Li et al. 2020): max-value entropy search through a chain of levels, by quadrature.

The condition f_M(x) <= f* carries information about a lower level f_m(x). For Gauss-Hermite nodes v of f_m(x), the
levels above give the mean and the variance of f_M(x) given f_m(x) = v. Each node is weighted by the probability that
f_M(x) stays below f*. The weighted nodes have a variance; a Gaussian with this variance gives the entropy of f_m(x)
given f*.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.acquisition.baseline_search import (
    Candidate,
    CandidateSearch,
    best_candidate,
    find_optima,
    in_flight,
    moments,
)
from bmbo.acquisition.batch_invariants import Pending
from bmbo.acquisition.max_value_entropy import entropy_reduction, spread
from bmbo.acquisition.sampled_optima import Optimum
from bmbo.history import Dataset, History, Query
from bmbo.problem import Space
from bmbo.protocols import Posterior, Select


@runtime_checkable
class ChainedPosterior(Posterior, Protocol):
    """Describe functions in which a level depends only on the point and on the level below."""

    def top_given(self, unit: Float[Array, "q d"], level: int, output: Float[Array, "q k"]) -> Float[Array, "t q k"]:
        """Return the top level of some of the functions if a lower level had these outputs."""
        ...


@dataclass(frozen=True)
class ChainQuadrature(Select):
    """Choose the one place with the most information about f* per cost, as DNN-MFBO does; a batch has one place.

    What is in flight counts as if its mean had been observed.

    Args:
        num_nodes: number of nodes of the quadrature over a lower level's output.
        num_optima: number of draws of f*, evenly spaced over their distribution.
        observation_noise: whether to score what is observed; without it, as in the original, noise-free functions.
        search: how the place is searched.
    """

    num_nodes: int = 10
    num_optima: int = 10
    observation_noise: bool = True
    search: CandidateSearch = field(default_factory=CandidateSearch)

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        if not isinstance(posterior, ChainedPosterior):
            raise TypeError(f"ChainQuadrature needs a posterior with `top_given`, got {type(posterior).__name__}")
        del data
        problem = history.priced
        key_optimum, key_place = jax.random.split(key)
        optimum = find_optima(key_optimum, posterior, space=problem.space, search=self.search)
        costs = jnp.asarray(problem.ladder.costs, jnp.float32)
        taken = Pending.of([trial.query for trial in history.pending], problem.space.dim)
        found = _choose(key_place, posterior, optimum, costs, taken, space=problem.space, config=self)
        return [found.query(problem.space)][:num]


def conditional_variance(
    log_share: Float[Array, "i q k"], nodes: Float[Array, " k"], log_weight: Float[Array, " k"]
) -> Float[Array, "i q"]:
    """Return the variance of a standard Gaussian whose nodes are weighted by probabilities, given as logarithms."""
    share = jax.nn.softmax(log_share + log_weight[None, None], axis=-1)
    mean = jnp.sum(share * nodes[None, None], axis=-1)
    return jnp.sum(share * (nodes[None, None] - mean[..., None]) ** 2, axis=-1)


def hermite(num: int) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Return nodes and logarithms of weights for expectations under a standard Gaussian."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num)
    log_weight = np.log(weights) - 0.5 * math.log(2.0 * math.pi)
    return jnp.asarray(nodes, jnp.float32), jnp.asarray(log_weight, jnp.float32)


@partial(jax.jit, static_argnames=("space", "config"))
def _choose(
    key: PRNGKeyArray,
    posterior: ChainedPosterior,
    optimum: Optimum,
    costs: Float[Array, " m"],
    pending: Pending,
    *,
    space: Space,
    config: ChainQuadrature,
) -> Candidate:
    _, taken = in_flight(posterior, pending)
    chosen = spread(optimum.value, config.num_optima)
    best = optimum.value[chosen]
    noise = posterior.noise if config.observation_noise else jnp.zeros_like(posterior.noise)
    nodes, log_weight = hermite(config.num_nodes)
    top = costs.shape[0] - 1

    def score(unit: Float[Array, "q d"]) -> Float[Array, "q m"]:
        at = moments(posterior.draw(unit), taken)
        columns: list[Float[Array, " q"]] = []
        for level in range(top):
            deviation = jnp.sqrt(at.variance[:, level])
            given = posterior.top_given(unit, level, at.mean[:, level, None] + deviation[:, None] * nodes[None])
            # The offset keeps the gradient finite where all draws agree.
            spread_given = jnp.sqrt(jnp.var(given, axis=0) + 1e-10)
            log_share = log_ndtr((best[:, None, None] - jnp.mean(given, axis=0)[None]) / spread_given[None])
            left = at.variance[None, :, level] * conditional_variance(log_share, nodes, log_weight)
            observed = at.variance[None, :, level] + noise[level]
            tiny = float(jnp.finfo(left.dtype).tiny)
            columns.append(jnp.mean(0.5 * jnp.log(observed / (left + noise[level] + tiny)), axis=0))
        gamma = (best[:, None] - at.mean[None, :, top]) / jnp.sqrt(at.variance[None, :, top])
        own = at.variance[:, top] / (at.variance[:, top] + noise[top])
        columns.append(jnp.mean(entropy_reduction(gamma, jnp.broadcast_to(own[None], gamma.shape)), axis=0))
        return jnp.stack(columns, axis=1) / costs[None]

    extra = optimum.unit[chosen].astype(jnp.float32)
    return best_candidate(key, score, extra, space=space, search=config.search)
