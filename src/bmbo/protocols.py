"""Define the whole contract between the parts, on one page.

Shape letters, the same in every file: n observations (padded), d cube coordinates, m levels, q places in a batch or
points in a set, s draws, c chains, p parameters of one draw, r restarts, b rows of a batched optimisation, f imagined
futures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.history import Dataset, History, Query
from bmbo.history.observations import Floats, Integers, Observations


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
class ExactPosterior(Protocol):
    """Offer exact means, variances and covariances over points and levels, as NumPy arrays in double precision.

    Values are standardised, and larger is better. Outcomes can be imagined; then there is one mean for each imagined
    future, and one variance for all of them. A posterior never changes.
    """

    @property
    def unit(self) -> Floats:
        """Return the observed and imagined points [n d]."""
        ...

    @property
    def level(self) -> Integers:
        """Return the levels of these points [n]."""
        ...

    @property
    def noise(self) -> Floats:
        """Return the variance of an observation about its function, per level [m]."""
        ...

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """Return means [q f] and variances [q] of one level at points [q d]."""
        ...

    def covariance(self, unit: Floats, level: int, other: Floats, other_level: int) -> Floats:
        """Return the covariances [q b] of one level at points [q d] with another level at points [b d]."""
        ...

    def imagined(self, unit: Floats, level: int, white: Floats) -> "ExactPosterior":
        """Return the posterior after one more outcome at a point [d], `white` [f] deviations off its mean."""
        ...


@dataclass(frozen=True)
class WeightedPosteriors:
    """Hold exact posteriors of several models, and how far each is believed.

    Attributes:
        parts: the posteriors; all have seen the same observations.
        weights: of the parts; their sum is 1.
        restore: maps standardised values of the top level to values in the objective's unit, where larger is better.
    """

    parts: tuple[ExactPosterior, ...]
    weights: Floats
    restore: Callable[[Floats], Floats]


@runtime_checkable
class ExactSurrogate(Protocol):
    """Learn exact posteriors from observations, on the host."""

    def fit(self, observations: Observations, carry: Any = None) -> tuple[WeightedPosteriors, Any]:
        """Return the posteriors and a cache for the next fit; `carry` is such a cache, and None is always allowed.

        There is at least one observation. Raise ArithmeticError or ValueError after a numerical failure; NumPy's
        LinAlgError is a ValueError.
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

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """Return at most `num` queries, and a cache for the next call; no queries only while something is in flight.

        The result is a pure function of (seed, history). The seed belongs to the study and is the same at every call.
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

    def recommendation(self, seed: int, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """Return the point with the best expected value at the top fidelity, and a cache as `suggest` does.

        The history has at least one trial with a value.
        """
        ...


@runtime_checkable
class Budgeted(Policy, Protocol):
    """Describe a policy that plans with what a run may spend. It may suggest nothing when the top cannot be paid."""

    def within(self, total_cost: float | None, n_trials: int | None) -> Policy:
        """Return the same policy for a run with these limits; None is no limit.

        Args:
            total_cost: what all trials of the history may cost together, those still to come included.
            n_trials: how many trials the history may have at the end.
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
