"""Record what was asked and what came out: queries, outcomes, trials and their immutable history."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bmbo.problem import Problem


@dataclass(frozen=True)
class Query:
    """Hold a point of the unit cube and a level, before it is run; `tag` is a note that a policy leaves for itself."""

    unit: tuple[float, ...]
    level: int
    tag: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Outcome:
    """Hold the result of a run: a finite value, or the reason why there is no value."""

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
        """Return the outcome of a run that returned a number; NaN and infinities become failures with a reason."""
        if math.isfinite(value):
            return cls(float(value), cost, seconds)
        return cls(None, cost, seconds, error=f"the objective returned {value!r}")


@dataclass(frozen=True)
class TrialRecord:
    """Hold a query and, once it is known, its outcome.

    Attributes:
        number: of the trial in its study.
        query: what is run.
        outcome: what came of it; None while the trial is in flight.
        dropped: whether a user took a finished trial out of what is known.
        refunded: whether a user had its cost, and its place among the trials, given back.
    """

    number: int
    query: Query
    outcome: Outcome | None = None
    dropped: bool = False
    refunded: bool = False

    @property
    def value(self) -> float | None:
        """Return the finite value that was observed, or None."""
        return None if self.outcome is None else self.outcome.value


@dataclass(frozen=True)
class History:
    """Hold all that is known about a problem.

    A history never changes: `asked` and `with_outcome` return a new one. Trials are in the order of their numbers, not
    of their arrival, so that parallel runs are as repeatable as others.
    """

    problem: Problem
    trials: tuple[TrialRecord, ...] = ()

    @property
    def kept(self) -> tuple[TrialRecord, ...]:
        """Return the trials that were not dropped."""
        return tuple(t for t in self.trials if not t.dropped)

    @property
    def told(self) -> tuple[TrialRecord, ...]:
        """Return the trials with an outcome, without dropped ones."""
        return tuple(t for t in self.kept if t.outcome is not None)

    @property
    def learned_from(self) -> tuple[TrialRecord, ...]:
        """Return the trials that a model sees: `told` without the failures that a value has replaced.

        A value replaces the failures of the same configuration at the same level: it shows that the configuration can
        be run, so that something else was wrong when it failed.
        """
        told = self.told
        with_value = {(t.query.unit, t.query.level) for t in told if t.value is not None}
        return tuple(t for t in told if t.value is not None or (t.query.unit, t.query.level) not in with_value)

    @property
    def done(self) -> tuple[TrialRecord, ...]:
        """Return the trials with a value, without dropped ones."""
        return tuple(t for t in self.kept if t.value is not None)

    @property
    def failed(self) -> tuple[TrialRecord, ...]:
        """Return the trials that ended without a value, without dropped ones."""
        return tuple(t for t in self.told if t.value is None)

    @property
    def pending(self) -> tuple[TrialRecord, ...]:
        """Return the trials that are still in flight."""
        return tuple(t for t in self.trials if t.outcome is None)

    @property
    def spent(self) -> float:
        """Return the cost of all outcomes so far, failures included, without what was given back."""
        return sum((t.outcome.cost for t in self.trials if t.outcome is not None and not t.refunded), start=0.0)

    @property
    def best(self) -> TrialRecord | None:
        """Return the best trial at the top fidelity, the one with the lowest number if several are equal."""
        top = [t for t in self.done if t.query.level == self.problem.ladder.top]
        return max(top, key=lambda t: self.problem.sign * (t.value or 0.0), default=None)

    @property
    def priced(self) -> Problem:
        """Return the problem with a number for every cost: the given one, or the mean seconds of a level if measured.

        A level without a known duration gets a price from the other levels: in proportion to its fidelity's value if
        that is a number, else their mean. While no duration is known, every cost is 1.
        """
        if not self.problem.ladder.measured:
            return self.problem
        return replace(self.problem, ladder=self.problem.ladder.priced(self._mean_seconds()))

    def _mean_seconds(self) -> dict[int, float]:
        """Return the mean duration of each level's trials; a duration of 0 seconds is unknown and left out."""
        known: dict[int, float] = {}
        # Failed trials often end early. They count only at a level that has no others.
        for trials in (self.failed, self.done):
            levels: dict[int, list[float]] = {}
            for trial in trials:
                if trial.outcome is not None and trial.outcome.seconds > 0:
                    levels.setdefault(trial.query.level, []).append(trial.outcome.seconds)
            known.update({level: sum(seconds) / len(seconds) for level, seconds in levels.items()})
        return known

    def asked(self, query: Query) -> "History":
        """Return this history with one more trial in flight; raise ValueError if the query does not fit the problem."""
        if len(query.unit) != self.problem.space.dim:
            raise ValueError(f"a query needs {self.problem.space.dim} coordinates, got {len(query.unit)}")
        if not all(0.0 <= u <= 1.0 for u in query.unit):
            raise ValueError(f"a query's coordinates must lie in the unit cube, got {query.unit}")
        if not 0 <= query.level < self.problem.ladder.num_levels:
            raise ValueError(f"level {query.level} is not one of 0 to {self.problem.ladder.top}")
        return replace(self, trials=(*self.trials, TrialRecord(len(self.trials), query)))

    def with_outcome(self, number: int, outcome: Outcome) -> "History":
        """Return this history with the outcome of one trial; raise KeyError or ValueError if it is not in flight."""
        if not 0 <= number < len(self.trials):
            raise KeyError(f"there is no trial {number}; the history has {len(self.trials)}")
        trial = self.trials[number]
        if trial.outcome is not None:
            raise ValueError(f"trial {number} has an outcome already: {trial.outcome}")
        trials = list(self.trials)
        trials[number] = replace(trial, outcome=outcome)
        return replace(self, trials=tuple(trials))
