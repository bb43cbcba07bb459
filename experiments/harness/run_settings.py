"""Describe a run: its task (method, problem, seed) and its settings (cost, batch size, starts)."""

from dataclasses import asdict, dataclass
from typing import Any

SYNCHRONOUS, ASYNCHRONOUS = "sync", "async"

SCHEDULES = (SYNCHRONOUS, ASYNCHRONOUS)
"""Whether workers wait for each other: batch after batch, or a new job for each worker as soon as it is free."""


@dataclass(frozen=True)
class Settings:
    """Hold the rules that must be the same for runs that are compared.

    Attributes:
        total_cost: the cost of a run, starts included.
        batch_size: the number of jobs at once, for methods that can ask for several.
        num_starts: the number of random points per level that methods begin from.
        judged: whether queries below the top and recommendations during the run are evaluated at the top, outside the
            cost. Without this, a run has no curve like the paper's, and needs only one or two evaluations that are not
            charged.
        schedule: one of `SCHEDULES`. The number of workers is the batch size.
    """

    total_cost: float
    batch_size: int = 5
    num_starts: int = 10
    judged: bool = True
    schedule: str = SYNCHRONOUS

    def to_json(self) -> dict[str, Any]:
        """Return the settings in types of JSON. A synchronous schedule is left out, as in older records."""
        found = asdict(self)
        if self.schedule == SYNCHRONOUS:
            del found["schedule"]
        return found


@dataclass(frozen=True)
class Task:
    """Name one run. `repeat` marks a second run of the same task, which must give the same results."""

    problem: str
    method: str
    seed: int
    repeat: bool = False

    @property
    def stem(self) -> str:
        """Return the path of the record below the folder of records, without its ending."""
        return f"{self.problem}/{self.method}/{self.seed}{'.repeat' if self.repeat else ''}"

    def __str__(self) -> str:
        return f"{self.method} on {self.problem}, seed {self.seed}{' again' if self.repeat else ''}"
