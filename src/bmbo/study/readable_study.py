"""Define what can be read from a study: its trials, its best one, what the model says, a table and a report."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from bmbo.history import History
from bmbo.history.front_volume import volume_of
from bmbo.ledger import Ledger, LedgerSnapshot, redacted
from bmbo.ledger.study_definition import directions_of
from bmbo.problem import Number, Problem
from bmbo.problem.objectives import reference_numbers
from bmbo.protocols import Policy, Recommending
from bmbo.study import import_export, run_messages
from bmbo.study.believed_best import recommended_of
from bmbo.study.front_messages import no_single_best
from bmbo.study.names_of_optuna import StudyNames
from bmbo.study.notebook_views import study_html
from bmbo.study.run_options import RunOptions
from bmbo.study.stored_method import require_method
from bmbo.study.trial import StudyRecommendation, Trial, view

logger = logging.getLogger("bmbo")

Direction = Literal["minimize", "maximize"]


class ReadableStudy(StudyNames):
    """Show what a study holds. `Study` is what users have; this is the part of it that changes nothing.

    Attributes:
        policy: what suggests, and what knows a model.
        checkpoints: where checkpoint folders are made.
    """

    def __init__(self, ledger: Ledger, policy: Policy, checkpoints: Path) -> None:
        self.policy = policy
        self.checkpoints = checkpoints
        self._ledger = ledger
        self._carry: Any = None

    @property
    def study_name(self) -> str:
        """Return its name in the storage."""
        return self._ledger.name

    @property
    def storage(self) -> str:
        """Return where it is kept, without passwords."""
        return redacted(self._ledger.storage)

    @property
    def problem(self) -> Problem:
        """Return its space, fidelities and direction."""
        return self._ledger.problem

    @property
    def direction(self) -> Direction:
        """Return whether small or large values are good; raise ValueError if there are several objectives."""
        if self.problem.objectives:
            raise ValueError(f"a study with {self.problem.num_objectives} objectives has several: study.directions")
        return "maximize" if self.problem.maximise else "minimize"

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Return the direction of each objective."""
        return cast(tuple[Direction, ...], directions_of(self.problem))

    @property
    def metric_names(self) -> list[str] | None:
        """Return the names of the objectives; None if they have none."""
        names = [each.name for each in self.problem.objectives]
        return names if names and not names[0].isdecimal() else None

    @property
    def last_run(self) -> RunOptions | None:
        """Return the limits and batches of the last run, by any process; None before the first run."""
        stored = self._ledger.last_run
        return None if stored is None else RunOptions.of_stored(stored)

    @property
    def history(self) -> History:
        """Return all that is known, as one immutable value."""
        return self._ledger.read().history

    @property
    def trials(self) -> list[Trial]:
        """Return every trial, in the order in which they were asked for."""
        record = self._ledger.read()
        return [self._view(record, entry.trial.number) for entry in record.entries]

    @property
    def best_trial(self) -> Trial:
        """Return the best feasible trial at the top fidelity.

        In a noisy study with a model it is the first run of the configuration that is believed best, and not the
        luckiest of all runs. Raise ValueError while there is none, or if there are several objectives: see
        `best_trials`.
        """
        record = self._ledger.read()
        if self.problem.objectives:
            raise ValueError(no_single_best(self.problem))
        best = record.history.best
        if best is None:
            raise ValueError(run_messages.no_best_line(record.history))
        believed = self._believed(record.history)
        return self._view(record, believed.trials[0] if believed is not None and believed.trials else best.number)

    @property
    def best_trials(self) -> list[Trial]:
        """Return the feasible trials at the top fidelity that no other beats: the Pareto front of several objectives.

        With one objective this is the best trial. The list is empty while there is none.
        """
        record = self._ledger.read()
        return [self._view(record, trial.number) for trial in record.history.front]

    def hypervolume(self, reference_point: Sequence[Number] | None = None) -> float:
        """Return how much room the front of several objectives beats, up to a reference point; 0 before there is one.

        Args:
            reference_point: for each objective the value that is just not good enough; by default that of the study.
                If it has none, the point lies a tenth of the front's range behind its worst values, and moves with it.
        """
        if not self.problem.objectives:
            raise ValueError("hypervolume belongs to several objectives: create_study(directions=[...])")
        given = None if reference_point is None else reference_numbers(self.problem.objectives, reference_point)
        return volume_of(self.history, given)

    @property
    def best_params(self) -> Mapping[str, Any]:
        """Return the configuration of the best trial."""
        return self.best_trial.params

    @property
    def best_value(self) -> float:
        """Return the value of the best trial; in a noisy study with a model, the value that is believed instead."""
        history = self.history
        if self.problem.objectives:
            raise ValueError(no_single_best(self.problem))
        if history.best is None:
            raise ValueError(run_messages.no_best_line(history))
        believed = self._believed(history)
        return float(history.best.value or 0.0) if believed is None else believed.value

    def __repr__(self) -> str:
        several = bool(self.problem.objectives)
        shown = f"directions={list(self.directions)}" if several else f"direction={self.direction!r}"
        return f"Study({self.study_name!r}, storage={self.storage!r}, {shown})"

    def _repr_html_(self) -> str:
        record = self._ledger.read()
        trials = [self._view(record, number) for number in range(len(record.entries))]
        return study_html(self.study_name, self.storage, record.history, trials)

    def recommendation(self) -> StudyRecommendation:
        """Return the configuration with the best expected value at the top fidelity, of those that are feasible.

        Raise TypeError if the study's method has no surrogate, ValueError if no trial has finished yet, if trials at
        the top have, and none keeps all constraints, or if there are several objectives, ImportError if an extra that
        the method needs is not installed.
        """
        require_method(self.policy)
        if self.problem.objectives:
            raise ValueError(no_single_best(self.problem))
        if not isinstance(self.policy, Recommending):
            raise TypeError("this study's method has no surrogate to recommend from; see best_trial")
        history = self.history
        if not history.done:
            raise ValueError("no trial has finished yet")
        if history.best is None and history.at_top:
            raise ValueError(run_messages.no_best_line(history))
        found, self._carry = self.policy.recommendation(self._ledger.seed, history, self._carry)
        return recommended_of(history, found)

    def _believed(self, history: History) -> StudyRecommendation | None:
        """Return what is believed best in a noisy study with a value at the top; None elsewhere."""
        if not self.problem.noisy or not isinstance(self.policy, Recommending):
            return None
        found, self._carry = self.policy.recommendation(self._ledger.seed, history, self._carry)
        return recommended_of(history, found)

    def answer(self) -> str:
        """Return in words which configuration to use, how sure that is, and why it is or is not the best observed."""
        history = self.history
        recommended = None
        can_recommend = isinstance(self.policy, Recommending) and not self.problem.objectives
        if can_recommend and history.done and (history.best or not history.at_top):
            try:
                recommended = self.recommendation()
            except (ArithmeticError, ValueError, RuntimeError) as error:  # NumPy's, SciPy's and XLA's are all of these
                logger.warning("the model cannot recommend anything: %s", error)
        return run_messages.answer(history, recommended)

    def trials_dataframe(self) -> Any:
        """Return every trial as a row of a pandas DataFrame; raise ImportError if pandas is not installed."""
        return import_export.table(self.trials, self.problem.objectives)

    def report(self, path: str | Path | None = None, *, model: bool = True) -> Path:
        """Write a page with figures about this study, one HTML file that needs no network, and return its path.

        Raise ImportError if plotly or jinja2 is not installed (`pip install bmbo[plot]`), ValueError if there is a file
        at the path that is no report of bmbo. docs/report.md describes the page.

        Args:
            path: of the file; by default the name of the study and .html, in the working directory.
            model: whether to show what a model says; without it the page is made at once.

        Example:
            >>> study.report("study.html")
        """
        # Imported here: a study that makes no report need not wait for what only a report needs.
        from bmbo.study import reporting  # noqa: PLC0415

        return reporting.report(self._ledger, self.policy, self._ledger.seed, self._carry, path=path, model=model)

    def _views(self, numbers: Sequence[int]) -> list[Trial]:
        """Return trials of the record as it is now."""
        record = self._ledger.read()
        return [self._view(record, number) for number in numbers]

    def _view(self, record: LedgerSnapshot, number: int) -> Trial:
        return view(self.checkpoints, record.history, record.entries[number])
