"""Hold all that a report is made from. Everything else in this folder is computed from it, without side effects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from bmbo.history import History
from bmbo.history.host_observations import Floats, Integers
from bmbo.ledger import LedgerEntry
from bmbo.problem import Number, Problem
from bmbo.protocols import Choice, ExactSurrogate, Recommendation


@dataclass(frozen=True)
class LastBatch:
    """Hold the last batch that the method chose, and what it chooses when it is asked again.

    Attributes:
        numbers: of the trials of the batch.
        choices: what the method chooses now, given what was known then.
        is_same: whether these are the trials of the batch.
    """

    numbers: tuple[int, ...]
    choices: tuple[Choice, ...]
    is_same: bool


@dataclass(frozen=True)
class ReportData:
    """Hold the record of a study, and what its method says of it.

    Attributes:
        study_name: the name of the study.
        storage: where it is kept, without passwords.
        history: what is known.
        entries: the trials as the ledger keeps them, in the order of their numbers.
        made: when the record was read.
        total_cost, n_trials: limits of the last run; None is no limit.
        recommendation: the configuration that the method would use; None if it names none.
        surrogate: learns an exact model; None if the page does without a model.
        is_own_model: whether the method itself chooses by this model.
        carry: a cache for `surrogate`.
        last_batch: None if the method cannot explain one.
        info: how the last fit of the method went, as its surrogate says; None if it says nothing.
    """

    study_name: str
    storage: str
    history: History
    entries: tuple[LedgerEntry, ...]
    made: datetime
    total_cost: float | None = None
    n_trials: int | None = None
    recommendation: Recommendation | None = None
    surrogate: ExactSurrogate | None = None
    is_own_model: bool = False
    carry: Any = None
    last_batch: LastBatch | None = None
    info: Any = None

    @cached_property
    def problem(self) -> Problem:
        """Return the problem, with a number for every cost."""
        return self.history.priced

    def of_objective(self, place: int) -> "ReportData":
        """Return the same study with one of several objectives alone, for figures of models."""
        history = self.history.of_objective(place)
        pairs = zip(self.entries, history.trials, strict=True)
        entries = tuple(replace(entry, trial=trial) for entry, trial in pairs)
        return replace(self, history=history, entries=entries, recommendation=None, carry=None, last_batch=None)

    @property
    def level_names(self) -> tuple[str, ...]:
        """Return the names of the fidelities, the roughest first."""
        return tuple(fidelity.name for fidelity in self.problem.ladder.fidelities)

    @cached_property
    def told(self) -> tuple[LedgerEntry, ...]:
        """Return the trials with an outcome, in the order in which they ended."""
        told = [entry for entry in self.entries if entry.trial.outcome is not None]
        if any(entry.ended is None for entry in told):
            return tuple(told)
        return tuple(sorted(told, key=lambda entry: (entry.ended or datetime.min, entry.trial.number)))

    @cached_property
    def done(self) -> tuple[LedgerEntry, ...]:
        """Return the trials with a value, in the order in which they ended."""
        return tuple(entry for entry in self.told if entry.trial.value is not None)

    @cached_property
    def at_top(self) -> tuple[LedgerEntry, ...]:
        """Return the trials with a value at the top, in the order in which they ended."""
        return tuple(entry for entry in self.done if entry.trial.query.level == self.problem.ladder.top)


def values_of(entries: Sequence[LedgerEntry]) -> Floats:
    """Return the values of trials that have one."""
    return np.array([entry.trial.value for entry in entries if entry.trial.value is not None], np.float64)


def spread_out(num: int, most: int) -> Integers:
    """Return at most `most` of the numbers below `num`, evenly spaced, the first and the last among them."""
    if num <= most:
        return np.arange(num)
    return np.unique(np.linspace(0, num - 1, most).round().astype(np.intp))


def short_number(value: Number) -> str:
    """Return a number as text with four digits; numbers of up to nine digits are written out."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def with_deviation(mean: float, std: float) -> str:
    """Return a prediction as text: no more digits than its standard deviation leaves."""
    if not 1e-4 < std < 1e4:
        return f"{short_number(mean)} ± {std:.2g}"
    places = max(0, 1 - math.floor(math.log10(std)))
    return f"{mean:.{places}f} ± {std:.{places}f}"


def short_value(value: object) -> str:
    """Return the value of a parameter as text: real numbers with four digits, the others whole."""
    return short_number(value) if isinstance(value, float) else str(value)
