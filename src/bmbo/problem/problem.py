"""Describe the problem to solve: a space, a ladder of fidelities and a direction."""

from dataclasses import dataclass

from bmbo.problem.fidelities import Ladder
from bmbo.problem.space import Space


@dataclass(frozen=True)
class Problem:
    """Describe a black box to optimise at the top of its ladder."""

    space: Space
    ladder: Ladder
    maximise: bool = False

    @property
    def sign(self) -> float:
        """Return the factor that makes larger values better."""
        return 1.0 if self.maximise else -1.0
