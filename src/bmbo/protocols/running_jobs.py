"""Promise to run jobs somewhere and to return what they gave."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


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


@runtime_checkable
class RunningApart(Protocol):
    """Say where the jobs of an executor run. Jobs of an executor that does not say it may run in its own process."""

    @property
    def runs_apart(self) -> bool:
        """Return whether jobs run in other processes, so that no job ends the process that submitted it."""
        ...
