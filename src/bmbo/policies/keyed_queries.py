"""Make random queries from a key of JAX, for the policies that compute with it."""

from collections.abc import Generator, Sequence

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray

from bmbo.history import Query
from bmbo.policies.random_search import MOST_TRIED, first_allowed
from bmbo.problem import Problem


def keyed_queries(key: PRNGKeyArray, problem: Problem, first: int, levels: Sequence[int]) -> list[Query]:
    """Return one query for each level, uniform in the cube and snapped.

    `first` is the number of the first trial. The query of a trial depends on the key and the trial's number alone.
    """
    return [
        Query(first_allowed(problem, _points(jax.random.fold_in(key, first + offset), problem.space.dim)), level)
        for offset, level in enumerate(levels)
    ]


def _points(key: PRNGKeyArray, dim: int) -> Generator[NDArray[np.float64]]:
    for tries in range(MOST_TRIED):
        key_point = jax.random.fold_in(key, tries) if tries else key
        yield np.asarray(jax.random.uniform(key_point, (dim,)), np.float64)
