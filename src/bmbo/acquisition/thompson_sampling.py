"""Choose by parallel Thompson sampling (Kandasamy et al. 2018): each place is the maximum of another drawn function."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bmbo.acquisition.runnable_points import exact_points
from bmbo.acquisition.sampled_optima import find_optimum
from bmbo.history import Dataset, History, Query
from bmbo.history.same_point import is_among
from bmbo.problem import Space
from bmbo.protocols import Posterior, Select


@dataclass(frozen=True)
class Thompson(Select):
    """Choose the maximisers of drawn functions at the top fidelity, one draw per place.

    Queries in flight need no special treatment, because other draws have other maximisers. In a small space maximisers
    may coincide: then draws whose maximiser is already taken come last.

    Args:
        num_candidates, num_starts, num_steps: how maximisers are found, see `find_optimum`.
    """

    num_candidates: int = 1024
    num_starts: int = 2
    num_steps: int = 30

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        del data
        problem = history.problem
        unit, _ = self.maximisers(key, posterior, problem.space)
        top = problem.ladder.top
        taken = [trial.query.unit for trial in history.pending if trial.query.level == top]
        fresh: list[tuple[float, ...]] = []
        repeated: list[tuple[float, ...]] = []
        for point in exact_points(unit, problem.space):
            (repeated if is_among(point, taken) else fresh).append(point)
            taken.append(point)
        return [Query(point, top) for point in [*fresh, *repeated][:num]]

    def maximisers(
        self, key: PRNGKeyArray, posterior: Posterior, space: Space
    ) -> tuple[Float[Array, "s d"], Int[Array, " s"]]:
        """Return the maximiser of every draw in a random order, and the draw of each."""
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
