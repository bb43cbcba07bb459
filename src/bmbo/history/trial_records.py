"""Record what was asked and what came out: queries, outcomes, trials and their immutable history."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from bmbo.history.pareto_front import on_front
from bmbo.history.prices import Prices
from bmbo.problem import Problem


@dataclass(frozen=True)
class Query:
    """Hold a point of the unit cube and a level, before it is run; `tag` is a note that a policy leaves for itself."""

    unit: tuple[float, ...]
    level: int
    tag: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Outcome:
    """Hold the result of a run: a finite value, or the reason why there is no value.

    Attributes:
        value: what was observed; of several objectives, that of the first.
        cost: what the run cost.
        seconds: how long it took.
        error: why there is no value.
        checkpoint: whether it left a checkpoint that a higher level can go on from; only where training continues.
        measured: the values that the problem limits, in the order of its constraints.
        further: the values of the objectives after the first.
    """

    value: float | None
    cost: float
    seconds: float = 0.0
    error: str | None = None
    checkpoint: bool = False
    measured: tuple[float, ...] = ()
    further: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.further and (self.value is None or not all(map(math.isfinite, self.further))):
            raise ValueError(f"values of further objectives must be finite and follow a value, got {self.further!r}")
        if not all(map(math.isfinite, self.measured)):
            raise ValueError(f"measured values must be finite, got {self.measured!r}")
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

    @classmethod
    def of_several(cls, values: Sequence[float], cost: float, seconds: float = 0.0) -> "Outcome":
        """Return the outcome of a run that returned a number for each objective, as `of` does for one."""
        if len(values) == 1:
            return cls.of(values[0], cost, seconds)
        if all(map(math.isfinite, values)):
            return cls(float(values[0]), cost, seconds, further=tuple(map(float, values[1:])))
        return cls(None, cost, seconds, error=f"the objective returned {tuple(values)!r}")

    @property
    def values(self) -> tuple[float, ...]:
        """Return the values of all objectives; empty after a failure."""
        return () if self.value is None else (self.value, *self.further)


@dataclass(frozen=True)
class TrialRecord:
    """Hold a query and, once it is known, its outcome.

    Attributes:
        number: of the trial in its study.
        query: what is run.
        outcome: what came of it; None while the trial is in flight.
        dropped: whether a user took a finished trial out of what is known.
        refunded: whether a user had its cost, and its place among the trials, given back.
        resumed_from: number of the trial whose checkpoint it went on from, once it is begun; None if from the start.
        reported: what it reported on its way: levels below its own and values, rising.
    """

    number: int
    query: Query
    outcome: Outcome | None = None
    dropped: bool = False
    refunded: bool = False
    resumed_from: int | None = None
    reported: tuple[tuple[int, float], ...] = ()

    @property
    def value(self) -> float | None:
        """Return the finite value that was observed, or None."""
        return None if self.outcome is None else self.outcome.value

    @property
    def values(self) -> tuple[float, ...]:
        """Return the finite values of all objectives; empty if there is none."""
        return () if self.outcome is None else self.outcome.values


@dataclass(frozen=True)
class History:
    """Hold all that is known about a problem.

    A history never changes: `asked` and `with_outcome` return a new one. Trials are in the order of their numbers, not
    of their arrival, so that parallel runs are as repeatable as others.
    What follows from the trials is computed once.
    """

    problem: Problem
    trials: tuple[TrialRecord, ...] = ()

    @cached_property
    def kept(self) -> tuple[TrialRecord, ...]:
        """Return the trials that were not dropped."""
        return tuple(t for t in self.trials if not t.dropped)

    @cached_property
    def told(self) -> tuple[TrialRecord, ...]:
        """Return the trials with an outcome, without dropped ones."""
        return tuple(t for t in self.kept if t.outcome is not None)

    @cached_property
    def learned_from(self) -> tuple[TrialRecord, ...]:
        """Return the trials that a model sees: `told` without the failures that a value has replaced.

        A value replaces the failures of the same configuration at the same level: it shows that the configuration can
        be run, so that something else was wrong when it failed.
        """
        told = self.told
        with_value = {(t.query.unit, t.query.level) for t in told if t.value is not None}
        return tuple(t for t in told if t.value is not None or (t.query.unit, t.query.level) not in with_value)

    @cached_property
    def reports(self) -> Mapping[int, tuple[tuple[int, float], ...]]:
        """Return what trials have reported on their way, as levels and values by their numbers, without dropped ones.

        Where a trial has given a value at the same point and level, that one counts and the report is left out.
        """
        if not any(t.reported for t in self.kept):
            return {}
        known = {(t.query.unit, t.query.level) for t in self.done}
        found: dict[int, tuple[tuple[int, float], ...]] = {}
        for trial in self.kept:
            unit = trial.query.unit
            new = tuple((level, value) for level, value in trial.reported if (unit, level) not in known)
            known.update((unit, level) for level, _ in new)
            if new:
                found[trial.number] = new
        return found

    @cached_property
    def done(self) -> tuple[TrialRecord, ...]:
        """Return the trials with a value, without dropped ones."""
        return tuple(t for t in self.kept if t.value is not None)

    @cached_property
    def failed(self) -> tuple[TrialRecord, ...]:
        """Return the trials that ended without a value, without dropped ones."""
        return tuple(t for t in self.told if t.value is None)

    @cached_property
    def pending(self) -> tuple[TrialRecord, ...]:
        """Return the trials that are still in flight."""
        return tuple(t for t in self.trials if t.outcome is None)

    @cached_property
    def spent(self) -> float:
        """Return the cost of all outcomes so far, failures included, without what was given back."""
        return sum((t.outcome.cost for t in self.trials if t.outcome is not None and not t.refunded), start=0.0)

    @cached_property
    def best(self) -> TrialRecord | None:
        """Return the best trial at the top fidelity that keeps all constraints, the first if several are equal.

        Several objectives have no best trial: see `front`.
        """
        if self.problem.objectives:
            return None
        top = [t for t in self.at_top if self.keeps_constraints(t)]
        return max(top, key=lambda t: self.problem.sign * (t.value or 0.0), default=None)

    @cached_property
    def front(self) -> tuple[TrialRecord, ...]:
        """Return the trials at the top fidelity that no other beats, of those that keep all constraints.

        With one objective this is the best trial alone. Of trials with equal values, the first counts.
        """
        if not self.problem.objectives:
            return () if self.best is None else (self.best,)
        kept = {t.values: t for t in reversed(self.at_top) if self.keeps_constraints(t)}
        rows = list(kept.values())
        if not rows:
            return ()
        found = on_front(np.array([self.larger_better(t) for t in rows]))
        return tuple(sorted((rows[place] for place in np.flatnonzero(found)), key=lambda t: t.number))

    def larger_better(self, trial: TrialRecord) -> tuple[float, ...]:
        """Return the values of a trial with the sign that makes larger values better."""
        signs = [each.sign for each in self.problem.objectives] or [self.problem.sign]
        return tuple(sign * value for sign, value in zip(signs, trial.values, strict=True))

    def of_objective(self, place: int) -> "History":
        """Return what is known of one of several objectives, as the history of a problem that has no other."""
        own = self.problem.objectives[place]
        problem = replace(self.problem, maximise=own.maximise, objectives=())

        def seen(trial: TrialRecord) -> TrialRecord:
            if trial.outcome is None or trial.value is None:
                return trial
            return replace(trial, outcome=replace(trial.outcome, value=trial.values[place], further=()))

        return History(problem, tuple(map(seen, self.trials)))

    @cached_property
    def repeats(self) -> Mapping[int, int]:
        """Return for each trial how many trials of the same configuration and level came before it; 0 is left out."""
        counts: dict[tuple[tuple[float, ...], int], int] = {}
        found: dict[int, int] = {}
        for trial in self.trials:
            key = (trial.query.unit, trial.query.level)
            before = counts.get(key, 0)
            counts[key] = before + 1
            if before:
                found[trial.number] = before
        return found

    @cached_property
    def at_top(self) -> tuple[TrialRecord, ...]:
        """Return the trials with a value at the top fidelity, without dropped ones."""
        return tuple(t for t in self.done if t.query.level == self.problem.ladder.top)

    def keeps_constraints(self, trial: TrialRecord) -> bool:
        """Return whether what a trial measured keeps all constraints; a trial without them keeps none."""
        return all(violation <= 0.0 for violation in self.violations(trial))

    def violations(self, trial: TrialRecord) -> tuple[float, ...]:
        """Return how far a trial lies beyond the bound of each constraint; infinity if it has no measured value."""
        constraints, measured = self.problem.constraints, () if trial.outcome is None else trial.outcome.measured
        if len(measured) != len(constraints):
            return (math.inf,) * len(constraints)
        return tuple(limit.violation(value) for limit, value in zip(constraints, measured, strict=True))

    @cached_property
    def least_infeasible(self) -> TrialRecord | None:
        """Return the trial at the top that comes nearest to keeping all constraints; None if nothing has a value there.

        Each violation is measured in parts of the largest one of its constraint.
        """
        known = [t for t in self.at_top if t.outcome is not None and t.outcome.measured]
        each = [tuple(max(violation, 0.0) for violation in self.violations(t)) for t in known]
        largest = [max(column) or 1.0 for column in zip(*each, strict=True)]
        together = [sum(own / most for own, most in zip(row, largest, strict=True)) for row in each]
        return min(zip(together, known, strict=True), key=lambda pair: pair[0], default=(0.0, None))[1]

    @cached_property
    def priced(self) -> Problem:
        """Return the problem with a number for every cost: the given one, or the mean seconds of a level if measured.

        A level without a known duration gets a price from the other levels: in proportion to its fidelity's value if
        that is a number, else their mean. While no duration is known, every cost is 1.
        """
        if not self.problem.ladder.measured:
            return self.problem
        ladder = self.problem.ladder.priced(self._mean_seconds())
        return replace(self.problem, ladder=ladder.rising() if self.problem.continues else ladder)

    @property
    def prices(self) -> Prices:
        """Return what queries cost now: less where training continues and a lower level left a checkpoint."""
        resumable: dict[tuple[float, ...], dict[int, int]] = {}
        if self.problem.continues:
            for trial in self.done:
                if trial.outcome is not None and trial.outcome.checkpoint:
                    resumable.setdefault(trial.query.unit, {})[trial.query.level] = trial.number
        return Prices(self.priced.ladder.costs, resumable)

    @property
    def in_flight(self) -> float:
        """Return what the trials in flight cost, as far as that is known before they have finished."""
        prices = self.prices
        return sum((self.price_of(trial, prices) for trial in self.pending), start=0.0)

    def price_of(self, trial: TrialRecord, prices: Prices | None = None) -> float:
        """Return the cost of a trial in flight; `prices` are those of this history, if they are at hand."""
        prices = self.prices if prices is None else prices
        if trial.resumed_from is None or not self.problem.continues:
            return prices.of(trial.query.unit, trial.query.level)
        return prices.costs[trial.query.level] - prices.costs[self.trials[trial.resumed_from].query.level]

    def _mean_seconds(self) -> dict[int, float]:
        """Return the mean duration of each level's trials; a duration of 0 seconds is unknown and left out.

        To the seconds of a trial that went on from a lower level, those that lead to that level are added.
        """
        known: dict[int, float] = {}
        # Failed trials often end early. They count only at a level that has no others.
        for trials in (self.failed, self.done):
            levels: dict[int, list[float]] = {}
            for trial in trials:
                if trial.outcome is not None and trial.outcome.seconds > 0:
                    levels.setdefault(trial.query.level, []).append(self._seconds_from_start(trial))
            known.update({level: sum(seconds) / len(seconds) for level, seconds in levels.items()})
        return known

    def _seconds_from_start(self, trial: TrialRecord) -> float:
        """Return how long a trial and those that it went on from ran together."""
        seconds = 0.0 if trial.outcome is None else trial.outcome.seconds
        if trial.resumed_from is None or not self.problem.continues:
            return seconds
        return seconds + self._seconds_from_start(self.trials[trial.resumed_from])

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
