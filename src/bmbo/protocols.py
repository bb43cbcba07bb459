"""The whole contract between the parts, on one page.

Shape letters, the same in every file: n observations (padded), d cube coordinates, m levels, q places in a batch or
points in a set, s draws, c chains, p parameters of one draw, r restarts, b rows of a batched optimisation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.history import History, Query
from bmbo.history.dataset import Dataset
from bmbo.problem import Problem


@runtime_checkable
class Posterior(Protocol):
    """Functions drawn jointly over all levels: the same functions at every call, differentiable, a pytree.

    Values are standardised per level and larger is better.
    """

    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """Every drawn function at every level of shared points."""
        ...

    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """Each drawn function at points of its own."""
        ...

    @property
    def noise(self) -> Float[Array, " m"]:
        """Expected variance of an observation about its function, per level."""
        ...


@runtime_checkable
class Surrogate(Protocol):
    """Learns a posterior from data."""

    def fit(self, key: PRNGKeyArray, data: Dataset, warm: Any = None) -> tuple[Posterior, Any, Any]:
        """Gives the posterior, what to start the next fit from, and what there is to say about this one.

        `warm` is what an earlier fit gave, on a part of the same data; None is always legal.
        """
        ...


@runtime_checkable
class Select(Protocol):
    """Chooses what to run next from a posterior."""

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> list[Query]:
        """At most `num` queries; pending ones are places of the batch already taken."""
        ...


@runtime_checkable
class Policy(Protocol):
    """Maps what is known to what to run next."""

    def suggest(self, key: PRNGKeyArray, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """At most `num` queries, none only while something is in flight.

        A pure function of (key, history): the key is the study's own, the same at every call, and `carry` only a cache.
        """
        ...


@dataclass(frozen=True)
class Finished:
    """What came of one job.

    Attributes:
        number: under which it was submitted.
        value: what it returned, unchecked; None when it returned nothing.
        seconds: how long it ran.
        error: why it has no value: an exception, a crash, a timeout, in one line.
        exception: the exception itself, where there was one and it could be carried here.
        lost: whether the place where it ran was lost (a node, the engine): it should be run again.
    """

    number: int
    value: object = None
    seconds: float = 0.0
    error: str | None = None
    exception: BaseException | None = None
    lost: bool = False


@runtime_checkable
class Executor(Protocol):
    """Runs jobs somewhere; the only part that ever calls an objective."""

    @property
    def num_workers(self) -> int:
        """How many jobs may run at once."""
        ...

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Starts a job; the caller never has more than `num_workers` in flight."""
        ...

    def collect(self, seconds: float) -> list[Finished]:
        """What has finished since the last call, each job once; waits up to so many seconds for a first one."""
        ...

    def close(self) -> None:
        """Kills what still runs and frees everything; a second call does nothing."""
        ...
