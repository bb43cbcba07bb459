"""Hold the outcomes of a history as plain NumPy arrays, for learners that run on the host in double precision."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bmbo.history.trial_records import History
from bmbo.problem import Space

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
    """

    space: Space
    num_levels: int
    unit: Floats
    level: Integers
    value: Floats

    @classmethod
    def of(cls, history: History) -> "Observations":
        """Return the outcomes of a history that a model sees."""
        problem, told = history.problem, history.learned_from
        values = [np.nan if trial.value is None else problem.sign * trial.value for trial in told]
        return cls(
            problem.space,
            problem.ladder.num_levels,
            np.array([trial.query.unit for trial in told], np.float64).reshape(len(told), problem.space.dim),
            np.array([trial.query.level for trial in told], np.intp),
            np.array(values, np.float64),
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
