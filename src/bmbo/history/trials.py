"""What was asked and what came of it: queries, outcomes, trials and their immutable history."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bmbo.problem import Problem


@dataclass(frozen=True)
class Query:
    """A point of the unit cube and a level, before it is run; `tag` is a policy's note to its later self."""

    unit: tuple[float, ...]
    level: int
    tag: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Outcome:
    """What a run gave: a finite value, or the reason why there is none."""

    value: float | None
    cost: float
    seconds: float = 0.0
    error: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.error is None):
            raise ValueError("an outcome has either a value or an error")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"an outcome's value must be finite, got {self.value!r}; Outcome.of makes it a failure")
        if not (math.isfinite(self.cost) and self.cost >= 0):
            raise ValueError(f"an outcome's cost must be finite and not negative, got {self.cost!r}")

    @classmethod
    def of(cls, value: float, cost: float, seconds: float = 0.0) -> "Outcome":
        """The outcome of a run that returned a number: NaN and infinities are failures, with their reason."""
        if math.isfinite(value):
            return cls(float(value), cost, seconds)
        return cls(None, cost, seconds, error=f"the objective returned {value!r}")


@dataclass(frozen=True)
class TrialRecord:
    """A query and, once it is known, its outcome."""

    number: int
    query: Query
    outcome: Outcome | None = None

    @property
    def value(self) -> float | None:
        """The finite value that was observed, if any."""
        return None if self.outcome is None else self.outcome.value


@dataclass(frozen=True)
class History:
    """All that is known of a problem; asking and telling give a new history and leave the old one as it was.

    Trials are in the order of their numbers, never of their arrival: runs in parallel are as repeatable as others.
    """

    problem: Problem
    trials: tuple[TrialRecord, ...] = ()

    @property
    def told(self) -> tuple[TrialRecord, ...]:
        """Trials with an outcome."""
        return tuple(t for t in self.trials if t.outcome is not None)

    @property
    def done(self) -> tuple[TrialRecord, ...]:
        """Trials with a value."""
        return tuple(t for t in self.trials if t.value is not None)

    @property
    def failed(self) -> tuple[TrialRecord, ...]:
        """Trials that ended without a value."""
        return tuple(t for t in self.told if t.value is None)

    @property
    def pending(self) -> tuple[TrialRecord, ...]:
        """Trials still in flight."""
        return tuple(t for t in self.trials if t.outcome is None)

    @property
    def spent(self) -> float:
        """Cost of every outcome so far, failures included."""
        return sum((t.outcome.cost for t in self.trials if t.outcome is not None), start=0.0)

    @property
    def best(self) -> TrialRecord | None:
        """The best trial at the top fidelity; the lowest number of equals."""
        top = [t for t in self.done if t.query.level == self.problem.ladder.top]
        return max(top, key=lambda t: self.problem.sign * (t.value or 0.0), default=None)

    @property
    def priced(self) -> Problem:
        """The problem with a number for every cost: as given, or where it is measured the mean seconds of a level.

        A level that nothing is known of is priced like the others, in proportion to the fidelities where these are
        numbers; 1 while nothing is known at all.
        """
        if not self.problem.ladder.measured:
            return self.problem
        return replace(self.problem, ladder=self.problem.ladder.priced(self._mean_seconds()))

    def _mean_seconds(self) -> dict[int, float]:
        """Mean duration of each level's trials, those of 0 seconds left out: theirs is not known."""
        known: dict[int, float] = {}
        # Failures often end early: they count only where there is nothing else.
        for trials in (self.failed, self.done):
            levels: dict[int, list[float]] = {}
            for trial in trials:
                if trial.outcome is not None and trial.outcome.seconds > 0:
                    levels.setdefault(trial.query.level, []).append(trial.outcome.seconds)
            known.update({level: sum(seconds) / len(seconds) for level, seconds in levels.items()})
        return known

    def asked(self, query: Query) -> "History":
        """This history with one more trial in flight."""
        if len(query.unit) != self.problem.space.dim:
            raise ValueError(f"a query needs {self.problem.space.dim} coordinates, got {len(query.unit)}")
        if not all(0.0 <= u <= 1.0 for u in query.unit):
            raise ValueError(f"a query's coordinates must lie in the unit cube, got {query.unit}")
        if not 0 <= query.level < self.problem.ladder.num_levels:
            raise ValueError(f"level {query.level} is not one of 0 to {self.problem.ladder.top}")
        return replace(self, trials=(*self.trials, TrialRecord(len(self.trials), query)))

    def with_outcome(self, number: int, outcome: Outcome) -> "History":
        """This history with the outcome of one trial that was in flight."""
        if not 0 <= number < len(self.trials):
            raise KeyError(f"there is no trial {number}; the history has {len(self.trials)}")
        trial = self.trials[number]
        if trial.outcome is not None:
            raise ValueError(f"trial {number} has an outcome already: {trial.outcome}")
        trials = list(self.trials)
        trials[number] = replace(trial, outcome=outcome)
        return replace(self, trials=tuple(trials))
