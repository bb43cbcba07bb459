"""Define the trial that an objective receives and that readers of a study see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from bmbo.executors.worker_program import error_line
from bmbo.history import History, TrialRecord
from bmbo.ledger import LedgerEntry
from bmbo.problem import Problem
from bmbo.problem.html_table import html_table
from bmbo.problem.number_checks import is_real, plain_scalar, short
from bmbo.study.checkpoints import folder_for, make_private, source_of
from bmbo.study.names_of_optuna import TrialNames
from bmbo.study.reported_values import ReportedValues
from bmbo.study.short_text import duration, short_text
from bmbo.study.user_attributes import checked_attribute


@dataclass(frozen=True)
class Trial(TrialNames):
    """Hold what an objective receives, and after it has run also what it gave.

    Attributes:
        number: of the trial in its study.
        params: the configuration to run.
        fidelity: the value of the fidelity to run it at.
        level: the number of the fidelity; 0 is the roughest.
        repeat: how many trials of the same configuration at the same fidelity came before it: a seed for this run.
        state: "waiting", "running", "complete", "failed" or "dropped".
        value: what was observed; None while the trial runs, if it failed, or if there are several objectives.
        values: what was observed of each objective; empty while the trial runs, or if it failed.
        num_objectives: how many values the objective returns.
        error: why it failed.
        cost: what it cost.
        refunded: whether that cost was given back, so that it is no part of what the study has spent.
        seconds: how long it ran.
        resume_from: checkpoint folder of the same configuration at the highest lower fidelity, to continue from it;
            None if there is none, and in a noisy study.
        begun: the local time at which it began.
        ended: the local time at which it ended.
        user_attrs: what was noted with `set_user_attr`, such as further metrics.
        measured: the measured values that constraints of the study limit, by their names.
        reported: what it reported on its way, by the values of fidelities below its own.
        stopped_from: the fidelity that it was planned at, if it was stopped early; else None.
    """

    number: int
    params: Mapping[str, Any]
    # Any, so that type checkers accept range(trial.fidelity): what it is, the user has said.
    fidelity: Any
    level: int
    state: str = "running"
    value: float | None = None
    error: str | None = None
    cost: float | None = None
    refunded: bool = False
    seconds: float | None = field(default=None, compare=False)
    resume_from: Path | None = field(default=None, compare=False)
    begun: datetime | None = field(default=None, compare=False, repr=False)
    ended: datetime | None = field(default=None, compare=False, repr=False)
    user_attrs: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    measured: Mapping[str, float] = field(default_factory=dict[str, float], repr=False)
    reported: Mapping[Any, float] = field(default_factory=dict[Any, float], compare=False, repr=False)
    stopped_from: Any = field(default=None, compare=False, repr=False)
    values: tuple[float, ...] = field(default=(), repr=False)
    num_objectives: int = field(default=1, compare=False, repr=False)
    repeat: int = 0
    _folder: Path = field(default=Path(), compare=False, repr=False)
    _on_the_way: ReportedValues | None = field(default=None, compare=False, repr=False)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Note something on this trial, such as a further metric; it is stored with the result.

        Example:
            >>> trial.set_user_attr("accuracy", 0.93)

        Args:
            key: its name.
            value: a number, a text, a boolean, None, or lists and dictionaries of these.
        """
        # The trial is frozen, its notes are not: the objective writes them while the trial runs.
        self.user_attrs[key] = checked_attribute(key, value)

    def report(self, value: object, step: object) -> None:
        """Say what the objective has come to on its way; the study learns from it at once, and at no cost.

        A step that is one of the fidelities below that of the trial counts as an observation there. Other steps, and
        values that are not finite, are not kept.

        Example:
            >>> trial.report(validation_loss, epoch)

        Args:
            value: the objective at this step, as it would be returned.
            step: the fidelity that has been reached, such as a number of epochs.
        """
        if self.state != "running":
            raise RuntimeError(f"only a trial that runs can report, and trial {self.number} is {self.state}")
        if self.num_objectives > 1:
            raise NotImplementedError(
                "a trial of a study with several objectives cannot report: no single value says how good it is so far; "
                "return all values at the end"
            )
        number, at = as_number(value), plain_scalar(step)
        if not is_real(at) and not isinstance(at, str):
            raise TypeError(f"report needs a step such as a number of epochs, got {short(step)}")
        if self._on_the_way is not None:
            self._on_the_way.add(number, at)

    def should_stop(self) -> bool:
        """Return whether the trial should end now; always False unless the study was made with early_stopping=True.

        It is True if the value that was reported last is worse than the median of those that other configurations had
        at the same fidelity, if these are four or more. Save a checkpoint then, and return the last value: the trial
        counts and is paid at the fidelity that it reached.

        Example:
            >>> if trial.should_stop():
            ...     return validation_loss
        """
        return self._on_the_way is not None and self._on_the_way.should_stop()

    def should_prune(self) -> bool:
        """Return `should_stop()`: the name of Optuna. Nothing is raised; return the last value."""
        return self.should_stop()

    @property
    def reported_levels(self) -> dict[int, float]:
        """Return what this attempt has reported so far, by levels."""
        return {} if self._on_the_way is None else dict(self._on_the_way.values)

    @property
    def stopped_at(self) -> int | None:
        """Return the level at which this attempt was told to stop; None if it was not, or has gone on since."""
        return None if self._on_the_way is None else self._on_the_way.stopped_at

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("state", self.state), ("fidelity", self.fidelity)]
        rows += [(name, short_text(value)) for name, value in self.params.items()]
        value = list(self.values) if self.num_objectives > 1 and self.values else self.value
        outcome = {"value": value, "error": self.error, "cost": self.cost, **self.measured, **self.user_attrs}
        rows += [(name, short_text(value)) for name, value in outcome.items() if value is not None]
        if self.seconds is not None:
            rows.append(("ran", duration(self.seconds)))
        return html_table(f"Trial {self.number}", [], rows)

    @property
    def checkpoint_dir(self) -> Path:
        """Return the folder of this trial, made at the first call; a trial that is run again finds the same folder."""
        make_private(self._folder)
        return self._folder


@dataclass(frozen=True)
class StudyRecommendation:
    """Hold the configuration that the surrogate chooses at the top fidelity, and what is known of it.

    Attributes:
        params: the configuration.
        value: what the surrogate expects of it.
        std: how far the surrogate may be off: a standard deviation, without the noise of a single run.
        trials: the numbers of its runs at the top that gave a value.
        mean: of what these gave; None if there are none.
        standard_error: of this mean, from all configurations that were run more than once; None if there are none.
    """

    params: Mapping[str, Any]
    value: float
    std: float
    trials: tuple[int, ...] = ()
    mean: float | None = None
    standard_error: float | None = None


def view(root: Path, history: History, entry: LedgerEntry, on_the_way: ReportedValues | None = None) -> Trial:
    """Return a trial as users see it.

    Args:
        root: where the study keeps checkpoints.
        history: what is known.
        entry: the trial.
        on_the_way: what takes its reports, if it is about to run.
    """
    trial, problem = entry.trial, history.problem
    outcome = trial.outcome
    # The ledger says where a finished trial came from; for others it is found here. Where training continues, a trial
    # that runs keeps what it began from, because its cost was counted for that.
    source = entry.resume_from
    is_fixed = outcome is not None or (problem.continues and entry.state == "running")
    if not is_fixed and (found := source_of(root, history, trial.query)) is not None:
        source = found.number
    return Trial(
        number=trial.number,
        params=dict(entry.params),
        fidelity=problem.ladder[trial.query.level].value,
        level=trial.query.level,
        state=entry.state,
        value=None if problem.objectives else trial.value,
        values=trial.values,
        error=None if outcome is None else outcome.error,
        cost=None if outcome is None else outcome.cost,
        refunded=trial.refunded,
        seconds=None if outcome is None else outcome.seconds,
        # Absolute: a worker may have another working directory.
        resume_from=None if source is None else folder_for(root, source).absolute(),
        begun=entry.begun,
        ended=entry.ended,
        user_attrs=dict(entry.user_attrs),
        measured=measured_of(problem, trial),
        reported={problem.ladder[level].value: value for level, value in trial.reported},
        stopped_from=None if entry.stopped_from is None else problem.ladder[entry.stopped_from].value,
        num_objectives=problem.num_objectives,
        repeat=history.repeats.get(trial.number, 0),
        _folder=folder_for(root, trial.number).absolute(),
        _on_the_way=on_the_way,
    )


def measured_of(problem: Problem, trial: TrialRecord) -> Mapping[str, float]:
    """Return the measured values of a trial by the names of the constraints; empty if it has none."""
    measured = () if trial.outcome is None else trial.outcome.measured
    return {limit.name: value for limit, value in zip(problem.constraints, measured, strict=False)}


def as_number(value: object) -> float:
    """Return a plain float; raise TypeError if the value is not a real number."""
    try:
        if not isinstance(value, bool | str | bytes | complex | np.bool_ | np.complexfloating) and value is not None:
            return float(value)  # pyright: ignore[reportArgumentType] (anything with __float__ will do)
        reason = ""
    except KeyboardInterrupt:
        raise
    # Exceptions of every kind, because __float__ is the user's code.
    except BaseException as error:
        reason = "" if isinstance(error, TypeError | ValueError | OverflowError) else f" ({error_line(error)})"
    if not reason and isinstance(value, list | tuple) and len(cast(list[Any], value)) > 1:
        reason = "; create_study(directions=[...]) makes a study with several objectives"
    raise TypeError(f"an objective must return a real number, got {short(value)}{reason}")
