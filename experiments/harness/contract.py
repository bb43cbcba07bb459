"""What the harness and the methods know of each other, on one page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import bmbo


@dataclass(frozen=True)
class Job:
    """One evaluation: a configuration by the names of the problem's space, as the space decodes it, and a level."""

    config: Mapping[str, Any]
    level: int


Start = tuple[Job, float]
"""An evaluation of the starting design with its value, in the objective's own units and direction."""


@runtime_checkable
class Optimiser(Protocol):
    """One run of one method. The harness asks, evaluates, tells; costs are its business alone."""

    def ask(self) -> list[Job]:
        """One to `batch_size` jobs to run now; none means that there is nothing more to ask."""
        ...

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """All values of the last `ask`, in its order, in the objective's own units and direction; NaN is a failure."""
        ...

    def recommend(self) -> Mapping[str, Any] | None:
        """What it would use now at the top fidelity; None where that is the best observed there.

        Called after an `ask` and before its values are told, so that a model fitted for the one serves the other and
        its time is counted where it belongs; and once at the end.
        """
        ...


Factory = Callable[[bmbo.Problem, int, int, Sequence[Start], float], Optimiser]
"""From a problem, a seed, a batch size, the starts and a total cost to an optimiser.

The starts are empty for methods that take none; the batch size is 1 for methods that are sequential. The total cost is
what the method's own evaluations may cost, the starts not among them: to plan by; the harness ends the run. Its last
batch may reach beyond it.
"""


@dataclass(frozen=True)
class MethodEntry:
    """A method by its name.

    Attributes:
        name: by which it is asked for.
        factory: makes one run; imports what it needs inside, and raises `NotInstalledError` where that is missing.
        takes_starts: whether it can begin from the common starting design.
        batch: whether it can ask for several evaluations at once.
        paper: where it was published.
        where: the implementation that runs.
        differs: from the publication or from how the tool is used by itself, and why.
        packages: distributions whose versions are written into the records.
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
    """A method's package is missing; its text says which one and how to get it."""
