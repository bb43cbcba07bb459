"""Describe the problem to solve: a space, a ladder of fidelities, a direction, and what a solution must keep."""

from collections.abc import Sequence
from dataclasses import dataclass

from bmbo.problem.constraints import Constraint, Feasible
from bmbo.problem.fidelities import Ladder
from bmbo.problem.objectives import Objective
from bmbo.problem.space import Space


@dataclass(frozen=True)
class Problem:
    """Describe a black box to optimise at the top of its ladder.

    Args:
        space: what is searched.
        ladder: the fidelities with their costs.
        maximise: whether large values are good; of several objectives, that of the first.
        continues: whether a level goes on from the checkpoint of a lower one, so that it costs only the difference.
        constraints: limits of values that the objective measures beside its result.
        feasible: which configurations may be run at all; None for all.
        early_stopping: whether trials that report bad values on their way are stopped.
        objectives: all objectives if there are several; empty for one.
        noisy: whether the same configuration gives another value each time, so that it may be run again.
    """

    space: Space
    ladder: Ladder
    maximise: bool = False
    continues: bool = False
    constraints: tuple[Constraint, ...] = ()
    feasible: Feasible | None = None
    early_stopping: bool = False
    objectives: tuple[Objective, ...] = ()
    noisy: bool = False

    def __post_init__(self) -> None:
        self._check_objectives()
        if not isinstance(self.early_stopping, bool):
            raise TypeError(f"early_stopping must be True or False, got {self.early_stopping!r}")
        if self.early_stopping and self.ladder.num_levels < 2:
            raise ValueError(
                f"early_stopping=True needs a lower fidelity at which a trial can stop, got only "
                f"{self.ladder[0].name!r}; add a cheaper fidelity or leave early_stopping out"
            )
        if not isinstance(self.noisy, bool):
            raise TypeError(f"noisy must be True or False, got {self.noisy!r}")
        if self.noisy and self.continues is True:
            raise ValueError(
                "noisy=True does not go with continues=True: a second run of a configuration would go on from the "
                "checkpoint of the first, and repeat its luck; leave one of them out"
            )
        if not isinstance(self.continues, bool):
            raise TypeError(f"continues must be True or False, got {self.continues!r}")
        if not self.continues:
            return
        if self.ladder.num_levels < 2:
            raise ValueError(
                f"continues=True needs a lower fidelity to go on from, got only {self.ladder[0].name!r}; add a cheaper "
                "fidelity or leave continues out"
            )
        if not self.ladder.measured and not self.ladder.rises:
            costs = ", ".join(f"{each.name}: {each.cost:g}" for each in self.ladder.fidelities)
            raise ValueError(
                f"continues=True needs costs that rise with the fidelity, because a level costs the difference to a "
                f"lower one; got {costs}; give the cost of the whole training up to each fidelity"
            )

    def _check_objectives(self) -> None:
        if not self.objectives:
            return
        if len(self.objectives) == 1 or self.objectives[0].maximise != self.maximise:
            raise ValueError("objectives are two or more, and the first has the direction of the problem")
        if self.noisy is True:
            raise ValueError(
                "noisy=True does not go with several objectives: which of two noisy fronts is better cannot be told "
                "yet; leave noisy out, or let the objective return means of several runs"
            )
        if self.early_stopping is True:
            raise ValueError(
                "early_stopping=True compares one value with that of others, and this study has "
                f"{len(self.objectives)} objectives; leave early_stopping out"
            )

    @property
    def sign(self) -> float:
        """Return the factor that makes larger values better."""
        return 1.0 if self.maximise else -1.0

    @property
    def num_objectives(self) -> int:
        """Return how many values an objective function returns."""
        return len(self.objectives) or 1

    @property
    def demands(self) -> frozenset[str]:
        """Return what a method must know of beyond a space, fidelities and one direction, by the names of arguments."""
        given = {
            "constraints": self.constraints,
            "feasible": self.feasible,
            "directions": self.objectives,
            "noisy": self.noisy,
        }
        return frozenset(name for name, value in given.items() if value)

    def allows(self, unit: Sequence[float]) -> bool:
        """Return whether the configuration of a point may be run."""
        return self.feasible is None or self.feasible.allows(self.space.decode(unit))
