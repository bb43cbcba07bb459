"""What a run is: which method on which problem with which seed, and under which rules."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Settings:
    """Rules that must be the same for runs that are compared.

    Attributes:
        total_cost: what a run may cost, its starts included.
        batch_size: jobs at once, for methods that can.
        num_starts: random points a level that methods begin from.
        judged: whether what is queried below the top, and what is recommended on the way, is evaluated at the top
            outside the cost. Without it a run has no curve like the paper's, and costs no more than it is charged
            and one or two evaluations at its end.
    """

    total_cost: float
    batch_size: int = 5
    num_starts: int = 10
    judged: bool = True

    def to_json(self) -> dict[str, Any]:
        """In JSON's types."""
        return asdict(self)


@dataclass(frozen=True)
class Task:
    """One run; `repeat` is a second one of the same, to see whether it gives the same."""

    problem: str
    method: str
    seed: int
    repeat: bool = False

    @property
    def stem(self) -> str:
        """Place of its record below the folder of records, without an ending."""
        return f"{self.problem}/{self.method}/{self.seed}{'.repeat' if self.repeat else ''}"

    def __str__(self) -> str:
        return f"{self.method} on {self.problem}, seed {self.seed}{' again' if self.repeat else ''}"
