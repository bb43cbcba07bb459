"""Parallel Thompson sampling (Kandasamy et al. 2018): every place is the maximiser of a function of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bmbo.acquisition.sampled_optima import find_optimum
from bmbo.history import Query
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Select


@dataclass(frozen=True)
class Thompson(Select):
    """Takes the maximisers of drawn functions at the top fidelity, each of another draw.

    Queries in flight need no thought: other draws have other maximisers. Only where a space is so small that maximisers
    coincide is a draw passed over whose own is taken, while others are left.

    Args:
        num_candidates, num_starts, num_steps: how maximisers are found, see `find_optimum`.
    """

    num_candidates: int = 1024
    num_starts: int = 2
    num_steps: int = 30

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> list[Query]:
        """See `Select`."""
        unit, _ = self.maximisers(key, posterior, problem.space)
        top = problem.ladder.top
        taken = {query.unit for query in pending if query.level == top}
        points = [tuple(float(u) for u in row) for row in problem.space.snap(np.asarray(unit, np.float64))]
        fresh: list[tuple[float, ...]] = []
        repeated: list[tuple[float, ...]] = []
        for point in points:
            (repeated if point in taken else fresh).append(point)
            taken.add(point)
        return [Query(point, top) for point in [*fresh, *repeated][:num]]

    def maximisers(
        self, key: PRNGKeyArray, posterior: Posterior, space: Space
    ) -> tuple[Float[Array, "s d"], Int[Array, " s"]]:
        """The maximiser of every draw in a random order, and which draw each is of."""
        return _maximisers(key, posterior, space=space, config=self)


@partial(jax.jit, static_argnames=("space", "config"))
def _maximisers(
    key: PRNGKeyArray, posterior: Posterior, *, space: Space, config: Thompson
) -> tuple[Float[Array, "s d"], Int[Array, " s"]]:
    key_search, key_order = jax.random.split(key)
    found = find_optimum(
        key_search,
        posterior,
        space.dim,
        num_candidates=config.num_candidates,
        num_starts=config.num_starts,
        max_steps=config.num_steps,
        snap=space.snap,
    )
    order = jax.random.permutation(key_order, jnp.arange(found.unit.shape[0], dtype=jnp.int32))
    return found.unit[order], order
