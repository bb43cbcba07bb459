"""Define what changes the record of a study without running anything: results told, queued, repaired and added."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from optuna.trial import TrialState

from bmbo.history import Query
from bmbo.problem import FidelityValue, Number
from bmbo.problem.number_checks import is_whole, whole_number
from bmbo.study import import_export, older_studies, result_tables, retry_and_drop, told_outcome, unwritten
from bmbo.study.checkpoints import Keep, clean, is_left
from bmbo.study.readable_study import ReadableStudy
from bmbo.study.retry_and_drop import Chosen
from bmbo.study.trial import Trial


class EditableStudy(ReadableStudy):
    """Change what a study holds. `Study` is what users have; this is the part of it that runs nothing."""

    def enqueue(
        self, params: Mapping[str, Any], level: int | None = None, *, fidelity: FidelityValue | None = None
    ) -> Trial:
        """Queue a configuration of your own, at the top fidelity unless another is given; `ask` and `optimize` run it.

        It is run with the very values that are given.

        Example:
            >>> study.enqueue({"lr": 0.01, "layers": 2}, fidelity=10)
        """
        place = import_export.level_of(self.problem.ladder, level, fidelity)
        space, feasible = self.problem.space, self.problem.feasible
        exact = space.exact(params)
        if feasible is not None and not feasible.allows(exact):
            raise ValueError(f"{exact} cannot be queued: feasible={feasible.name} does not allow it")
        number = self._ledger.add(Query(space.encode(params), place), params=exact)
        return self._view(self._ledger.read(), number)

    def tell(
        self,
        trial: Trial | int,
        value: object = None,
        *,
        error: str | None = None,
        state: str | TrialState | None = None,
        cost: Number | None = None,
        seconds: Number | None = None,
    ) -> Trial:
        """Record what a trial gave, and return the trial: what an objective returns, or why there is nothing.

        What was noted on the trial with `set_user_attr` is stored with it.

        NaN and infinities count as failures. Raise ValueError if the trial has an outcome already.

        Args:
            trial: the trial or its number.
            value: what was observed.
            error: why there is no value.
            state: "complete" or "fail" may be said as well; "waiting" puts the trial back into the queue.
            cost: what it cost, if that differs from the cost of its fidelity.
            seconds: how long it ran. If costs are measured and this is not given, the time since `ask` counts.
        """
        number = trial.number if isinstance(trial, Trial) else trial
        if not is_whole(number):
            given = "a list: tell the trials that ask returned one by one" if isinstance(trial, list) else repr(trial)
            raise TypeError(f"tell needs a trial or its number, got {given}")
        wanted = told_outcome.state_of(value, error, state)
        record = self._ledger.read()
        if not 0 <= number < len(record.entries):
            raise KeyError(f"there is no trial {number}; the study has {len(record.entries)}")
        entry = record.entries[number]
        ran = trial if isinstance(trial, Trial) else None
        reached = None if ran is None or value is None else ran.stopped_at
        at = told_outcome.reaching(entry, reached)
        noted: Mapping[str, Any] = {} if ran is None else ran.user_attrs
        outcome, noted = told_outcome.outcome_of(
            record.history, at, value, error, noted=noted, cost=cost, seconds=seconds
        )
        if self.problem.continues and outcome.value is not None:
            outcome = replace(outcome, checkpoint=is_left(self.checkpoints, number))
        # Refuses a second outcome before anything is written.
        record.history.with_outcome(number, outcome)
        if wanted == "waiting":
            self._ledger.requeue(entry, entry.owner, died=False)
        else:
            reported = {} if ran is None else ran.reported_levels
            reached = None if outcome.value is None else reached
            number = self._ledger.finish(entry, outcome, user_attrs=noted, reported=reported, reached=reached)
        return self._view(self._ledger.read(), number)

    def retry(self, trials: Chosen | None = None, *, refund: bool = False) -> list[Trial]:
        """Queue failed trials again and return the new trials; `ask` and `optimize` run them first.

        A retry is a trial of its own. If it succeeds, the method no longer sees the failure.

        Args:
            trials: the trials or their numbers; None for all failed trials that were not queued again yet.
            refund: whether to give back what the failed trials cost, and their places among `n_trials`.
        """
        return self._views(retry_and_drop.retry(self._ledger, trials, refund=refund))

    def drop(self, trials: Chosen, *, refund: bool = False) -> list[Trial]:
        """Take trials out of what the method knows and return them; their state is then "dropped".

        The record keeps them. Trials that wait are taken out of the queue, and those that were asked for and not told
        are given up. Optuna's dashboard still shows the values of dropped trials.

        Args:
            trials: the trials or their numbers.
            refund: whether to give back what they cost, and their places among `n_trials`.
        """
        return self._views(retry_and_drop.drop(self._ledger, trials, refund=refund))

    def recover(self, path: str | Path) -> list[Trial]:
        """Add the results of a file that a run wrote when its storage was away, remove the file, and return the trials.

        Raise ValueError if the file is none of these, or belongs to another study.
        """
        return self._views(unwritten.recover(self._ledger, Path(path)))

    def add_trial(
        self,
        params: Mapping[str, Any],
        value: Any,
        *,
        level: int | None = None,
        fidelity: FidelityValue | None = None,
        cost: Number | None = None,
    ) -> Trial:
        """Add a result that was found elsewhere, at the top unless a level or a fidelity is given; return its trial.

        The value is what an objective returns. The method uses it at once. It is free unless a cost is given, and no
        limit on trials counts it.
        """
        given = import_export.old_result(self.problem, params, value, level=level, fidelity=fidelity, cost=cost)
        (added,) = self._views([self._ledger.add(*given)])
        return added

    def add_trials(self, source: Any) -> list[Trial]:
        """Add the results of a table, another bmbo study or an Optuna study, and return their trials.

        If one result does not fit, an error names it and nothing is added. A result that this method has added before
        is not added again, so that the same call finishes a call that was cut short.

        A table is a pandas DataFrame, or the path of a .csv or .json file that `bmbo export` wrote. It has a column for
        each parameter (its name, or params_ and its name), a column `value`, and if you like `level` or `fidelity`, and
        `cost`. If it has a column `state`, rows that are not complete are left out. From a study, the trials with a
        value are taken; those of an Optuna study count as the top fidelity.
        """
        if isinstance(source, ReadableStudy):
            rows: Iterable[Mapping[str, Any]] = [
                {"params": trial.params, "value": (_told(trial), dict(trial.measured)), "fidelity": trial.fidelity}
                for trial in source.trials
                if trial.state == "complete"
            ]
        else:
            rows = result_tables.rows_of(source, self.problem)
        results = import_export.with_keys(import_export.old_results(self.problem, rows))
        return self._views(self._ledger.add_rows(results))

    def learn_from(self, source: Any, n: int | None = None) -> list[Trial]:
        """Queue the best configurations of an older, similar study at the lowest fidelity, and return the trials.

        Parameters are matched by their names, and the configurations are different ones among the best. Values are not
        taken over, so that a misleading study costs no more than these trials. What is known already is left out.

        Example:
            >>> study.learn_from(bmbo.load_study(study_name="last-year", storage="sqlite:///old.db"))

        Args:
            source: a bmbo study, an Optuna study, or a list of configurations, the best first.
            n: how many; by default half of the points with which the method begins at the lowest fidelity.
        """
        history = self.history
        num = older_studies.usual_number(self.policy, history.priced) if n is None else whole_number("n", n)
        is_ours = isinstance(source, ReadableStudy)
        configs = (
            older_studies.best_configurations(source.history) if is_ours else older_studies.configurations_in(source)
        )
        taken = [trial.query.unit for trial in history.trials]
        points = older_studies.proposed(self.problem.space, configs, num, self._ledger.seed, taken)
        name = str(getattr(source, "study_name", "a list"))
        return self._views([self._ledger.add(query) for query in older_studies.queries_of(points, name)])

    def clean_checkpoints(self, keep: Keep = "useful") -> list[int]:
        """Remove checkpoint folders of finished trials, and return the numbers of these trials.

        Folders that trials in flight need always stay. "useful" also keeps the folder of the best trial and, for each
        configuration, that of its highest finished level below the top.
        """
        return clean(self.checkpoints, self.history, keep)


def _told(trial: Trial) -> Any:
    """Return what the objective of a trial returned: a number, or one for each objective."""
    return trial.value if len(trial.values) == 1 else trial.values
