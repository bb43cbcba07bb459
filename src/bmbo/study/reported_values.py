"""Take what an objective reports while its trial runs: write it down, and say whether the trial should stop."""

import contextlib
import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import cloudpickle
from optuna.storages import InMemoryStorage

from bmbo.executors.worker_program import error_line
from bmbo.history import History, TrialRecord
from bmbo.ledger import Ledger, LedgerEntry, without_passwords
from bmbo.ledger.outages import patient_for

logger = logging.getLogger("bmbo")

FEWEST_OTHERS = 4
"""Other configurations that must have a value at a fidelity before a trial is stopped there."""
REPORT_SECONDS = 5.0
"""How long a process that runs nothing but a trial waits for a storage that is away; its result brings the values."""


@dataclass(eq=False)
class ReportedValues:
    """Hold what one attempt at a trial has reported.

    A report is written to the storage at once, if the process of the trial can reach it. All reports also travel with
    the result, so that nothing is lost where it cannot, as with a storage in memory and trials in processes.

    Args:
        trial_id: by which the storage knows the trial.
        levels: the levels that it may report, by the values of their fidelities: those below its own, and above the
            one that it went on from.
        others: the values that other configurations had at these levels when it began, larger better; empty where no
            trial is stopped.
        sign: the factor that makes larger values better.
        ledger: the record.

    Attributes:
        values: what was reported, by levels.
        stopped_at: the level at which it was last told to stop, if nothing was reported since.
    """

    trial_id: int
    levels: Mapping[Any, int]
    others: Mapping[int, tuple[float, ...]]
    sign: float
    ledger: Ledger | None
    values: dict[int, float] = field(default_factory=dict[int, float])
    stopped_at: int | None = None
    _last: int | None = None
    _packed: bytes | None = None

    def add(self, value: float, step: object) -> None:
        """Take a value; it is kept if it is finite and its step is one of the fidelities."""
        self.stopped_at = self._last = None
        level = None if isinstance(step, bool) else self.levels.get(step)
        if level is None or not abs(value) < float("inf"):
            return
        self.values[level], self._last = value, level
        # The training is worth more than a report: whatever goes wrong here, the result brings the value.
        try:
            self._write()
        except Exception as error:
            logger.warning("a report was not written down, it comes with the result: %s", _said(error))

    def should_stop(self) -> bool:
        """Return whether the last report is worse than the median of others at its fidelity, and remember it."""
        others = () if self._last is None else self.others.get(self._last, ())
        stops = self._last is not None and len(others) >= FEWEST_OTHERS
        stops = stops and self.sign * self.values[self._last or 0] < median(others)
        self.stopped_at = self._last if stops else None
        return bool(stops)

    def _write(self) -> None:
        """Write what was reported, if this process can reach the record."""
        patience = contextlib.nullcontext() if self._packed is None else patient_for(REPORT_SECONDS)
        with patience:
            if self.ledger is None and self._packed is not None:
                self.ledger = pickle.loads(self._packed)  # noqa: S301 - from the driver that started us
            if self.ledger is not None:
                self.ledger.note_reported(self.trial_id, self.values)

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to the process of a trial: there the record is opened when the first report comes."""
        packed = self._packed
        if self.ledger is not None and not isinstance(self.ledger.storage, InMemoryStorage):
            # A storage of the user's own may not travel.
            with contextlib.suppress(Exception):
                packed = cloudpickle.dumps(self.ledger)
        return {**self.__dict__, "ledger": None, "_packed": packed}


def reported_values_for(ledger: Ledger, history: History, entry: LedgerEntry) -> ReportedValues | None:
    """Return what takes the reports of a trial that begins; None at the lowest fidelity, which has nothing below it."""
    problem, trial = history.problem, entry.trial
    source = None if trial.resumed_from is None else history.trials[trial.resumed_from].query.level
    below = range(0 if source is None else source + 1, trial.query.level)
    if len(below) == 0:
        return None
    levels = {problem.ladder[level].value: level for level in below}
    others = _others(history, trial, set(below)) if problem.early_stopping else {}
    return ReportedValues(entry.trial_id, levels, others, problem.sign, ledger)


def _others(history: History, trial: TrialRecord, levels: set[int]) -> dict[int, tuple[float, ...]]:
    """Return the values of other configurations at some levels, larger better: one for each configuration."""
    found: dict[int, dict[tuple[float, ...], float]] = {level: {} for level in levels}
    for other in history.kept:
        unit = other.query.unit
        own = () if other.value is None else ((other.query.level, other.value),)
        for level, value in (*other.reported, *own):
            if level in levels and unit != trial.query.unit:
                found[level][unit] = history.problem.sign * value
    return {level: tuple(values.values()) for level, values in found.items()}


def _said(error: Exception) -> str:
    return without_passwords(error_line(error))
