"""Hold the outcomes of a history as plain NumPy arrays, for learners that run on the host in double precision."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bmbo.history.trial_records import History
from bmbo.problem import Space
from bmbo.problem.spread_levels import places_of

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


@dataclass(frozen=True)
class Observations:
    """Hold outcomes in the order of their trials.

    Attributes:
        space: what is searched.
        num_levels: of the ladder.
        unit: points of the cube, [n d].
        level: of each point, [n].
        value: larger is better; NaN is a failure, [n].
        places: where each level lies between the roughest, 0, and the top, 1; empty where that is not known, [m].
        noisy: whether a user says that a repeated run gives another value.
    """

    space: Space
    num_levels: int
    unit: Floats
    level: Integers
    value: Floats
    places: Floats = field(default_factory=lambda: np.zeros(0))
    noisy: bool = False

    @classmethod
    def of(cls, history: History) -> "Observations":
        """Return the outcomes of a history that a model sees, and what trials reported on their way."""
        problem, seen = history.problem, _seen(history)
        values = [np.nan if value is None else problem.sign * value for _, _, value in seen]
        return cls(
            problem.space,
            problem.ladder.num_levels,
            np.array([unit for unit, _, _ in seen], np.float64).reshape(len(seen), problem.space.dim),
            np.array([level for _, level, _ in seen], np.intp),
            np.array(values, np.float64),
            np.array(places_of(problem.ladder)),
            problem.noisy,
        )

    @property
    def top(self) -> int:
        """Return the level of the target fidelity."""
        return self.num_levels - 1

    def rows(self, places: Integers) -> "Observations":
        """Return some of the outcomes."""
        return replace(self, unit=self.unit[places], level=self.level[places], value=self.value[places])

    def __len__(self) -> int:
        return len(self.value)


def _seen(history: History) -> list[tuple[tuple[float, ...], int, float | None]]:
    """Return points, levels and values; None is a failure."""
    reports = history.reports
    if not reports:
        return [(trial.query.unit, trial.query.level, trial.value) for trial in history.learned_from]
    numbers = {trial.number for trial in history.learned_from}
    seen: list[tuple[tuple[float, ...], int, float | None]] = []
    for trial in history.kept:
        seen += [(trial.query.unit, level, value) for level, value in reports.get(trial.number, ())]
        if trial.number in numbers:
            seen.append((trial.query.unit, trial.query.level, trial.value))
    return seen
