"""Define what the harness and the methods know about each other. A new method needs this file only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import bmbo


@dataclass(frozen=True)
class Job:
    """Hold one evaluation to run: a configuration, as the problem's space decodes it, and a level."""

    config: Mapping[str, Any]
    level: int


Start = tuple[Job, float]
"""An evaluation of the starting design and its value, in the units and the direction of the objective."""


@runtime_checkable
class Optimiser(Protocol):
    """Describe one run of one method. The harness asks, evaluates and tells. Only the harness counts costs."""

    def ask(self) -> list[Job]:
        """Return one to `batch_size` jobs to run now, or an empty list to end the run."""
        ...

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """Take all values of the last `ask`, in its order and in the units of the objective; NaN means a failure."""
        ...

    def recommend(self) -> Mapping[str, Any] | None:
        """Return the configuration to use at the top fidelity now, or None for the best one observed there.

        The harness calls this after `ask` and before `tell`, and once at the end. So a model that was fitted in `ask`
        can be used again, and its time counts as time of `ask`.
        """
        ...


@runtime_checkable
class Asynchronous(Optimiser, Protocol):
    """Describe a run whose jobs end one by one. The harness calls these two methods in place of `ask` and `tell`."""

    def start(self, num: int) -> Mapping[int, Job]:
        """Return at most `num` jobs to start now, by numbers that are not used again, while earlier ones may run.

        No jobs mean that it waits for a running one or, if none is running, that the run ends.
        """
        ...

    def finish(self, number: int, value: float) -> None:
        """Take the value of the job with a number; NaN means a failure."""
        ...


Factory = Callable[[bmbo.Problem, int, int, Sequence[Start], float], Optimiser]
"""Makes an optimiser from a problem, a seed, a batch size, the starts and a total cost.

The starts are empty for methods that take none. The batch size is 1 for sequential methods. The total cost is what the
method's own evaluations may cost, without the starts. A method can plan with it. The harness ends the run, and the last
batch may exceed the total cost.
"""


@dataclass(frozen=True)
class MethodEntry:
    """Describe a method.

    Attributes:
        name: the name on the command line.
        factory: makes one run. It imports its packages inside, and raises `NotInstalledError` if one is missing.
        takes_starts: whether the method can begin from the common starting design.
        batch: whether the method can ask for several evaluations at once.
        paper: the publication.
        where: the implementation that runs.
        differs: what differs from the publication or from the usual use of the tool, and why.
        packages: the distributions whose versions are written into the records.
    """

    name: str
    factory: Factory
    takes_starts: bool
    batch: bool
    paper: str
    where: str
    differs: str = ""
    packages: tuple[str, ...] = ()


class NotInstalledError(RuntimeError):
    """Say which package of a method is missing and how to install it."""
