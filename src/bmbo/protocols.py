"""The whole contract between the parts, on one page.

Shape letters, the same in every file: n observations (padded), d cube coordinates, m levels, q places in a batch or
points in a set, s draws, c chains, p parameters of one draw, r restarts, b rows of a batched optimisation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.history import Dataset, History, Query


@runtime_checkable
class Posterior(Protocol):
    """Offer functions drawn jointly over all levels: the same functions at every call, differentiable, a pytree.

    Values are standardised per level, and larger is better.
    """

    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """Return every drawn function at every level of shared points."""
        ...

    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """Return each drawn function at its own points."""
        ...

    @property
    def noise(self) -> Float[Array, " m"]:
        """Return the expected variance of an observation about its function, per level."""
        ...


@runtime_checkable
class Surrogate(Protocol):
    """Learn a posterior from data."""

    def fit(self, key: PRNGKeyArray, data: Dataset, warm: Any = None) -> tuple[Posterior, Any, Any]:
        """Return the posterior, a start for the next fit, and a report about this fit.

        `warm` is the start that an earlier fit to a part of the same data returned. None is always allowed.
        """
        ...


@runtime_checkable
class Select(Protocol):
    """Choose what to run next from a posterior."""

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """Return at most `num` queries.

        Args:
            key: for all random choices.
            posterior: what was learned.
            data: the standardised observations that it was learned from, with their scales.
            history: all that is known; trials in flight are places of the batch that are already taken.
            num: how many queries are wanted.
        """
        ...


@runtime_checkable
class Policy(Protocol):
    """Map what is known to what to run next."""

    def suggest(self, key: PRNGKeyArray, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """Return at most `num` queries, and a cache for the next call; no queries only while something is in flight.

        The result is a pure function of (key, history). The key belongs to the study and is the same at every call.
        `carry` is the cache that an earlier call returned; None is always allowed.
        """
        ...


@dataclass(frozen=True)
class Recommendation:
    """Hold a point of the cube, and what is predicted there in the objective's own units."""

    unit: tuple[float, ...]
    mean: float
    std: float


@runtime_checkable
class Recommending(Policy, Protocol):
    """Describe a policy that can name the best configuration; the planner then confirms it at the top fidelity."""

    def recommendation(self, key: PRNGKeyArray, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """Return the point with the best expected value at the top fidelity, and a cache as `suggest` does.

        The history has at least one trial with a value.
        """
        ...


@dataclass(frozen=True)
class Finished:
    """Describe the outcome of one job.

    Attributes:
        number: under which the job was submitted.
        value: what the job returned, unchecked; None if it returned nothing.
        seconds: how long it ran.
        error: why it has no value: an exception, a crash or a timeout, in one line.
        exception: the exception itself, if there was one and it could be sent back.
        lost: whether the place where it ran was lost (a node, the engine), so that the job should be run again.
    """

    number: int
    value: object = None
    seconds: float = 0.0
    error: str | None = None
    exception: BaseException | None = None
    lost: bool = False


@runtime_checkable
class Executor(Protocol):
    """Run jobs somewhere. No other part ever calls an objective."""

    @property
    def num_workers(self) -> int:
        """Return how many jobs may run at once."""
        ...

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Start a job; the caller never has more than `num_workers` in flight."""
        ...

    def collect(self, seconds: float) -> list[Finished]:
        """Return what has finished since the last call, each job once; wait up to `seconds` for a first one."""
        ...

    def close(self) -> None:
        """Kill what still runs and free everything; a second call does nothing."""
        ...
