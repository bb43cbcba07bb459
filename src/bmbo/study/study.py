"""Define the study that users work with: it joins a problem, a policy and the record of what was run."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from optuna.trial import TrialState

from bmbo.executors import make_executor
from bmbo.history import History, Outcome, Query
from bmbo.ledger import ASKED, Ledger, LedgerSnapshot, Owner, redacted
from bmbo.problem import FidelityValue, Number, Problem
from bmbo.problem.number_checks import is_whole, whole_number
from bmbo.protocols import Executor, Policy, Recommending
from bmbo.study import import_export, retry_and_drop, run_messages, told_outcome, validation
from bmbo.study.checkpoints import KEEPS, Keep, clean
from bmbo.study.limits import Limits
from bmbo.study.planner import Follower, Planner
from bmbo.study.progress import Progress
from bmbo.study.retry_and_drop import Chosen
from bmbo.study.run_loop import Runner
from bmbo.study.run_options import GRACE_SECONDS, MAX_FAILURES, LoopOptions, RunOptions
from bmbo.study.trial import StudyRecommendation, Trial, view

logger = logging.getLogger("bmbo")

Direction = Literal["minimize", "maximize"]
Objective = Callable[[Trial], Any]
Callback = Callable[["Study", Trial], object]


class Study:
    """Run a search and read its results. `create_study` makes a study, and `load_study` finds it again.

    Attributes:
        policy: what suggests.
        checkpoints: where checkpoint folders are made.
        plans: whether runs in this process plan; if not, they end when no other process plans any more.
        answers: whether runs in this process end with `answer` in the log. Runs that do not plan never do.
    """

    def __init__(self, ledger: Ledger, policy: Policy, checkpoints: Path) -> None:
        self.policy = policy
        self.plans = True
        self.answers = True
        self.checkpoints = checkpoints
        self._ledger = ledger
        self._carry: Any = None
        self._runner: Runner | None = None

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
        """Return whether small or large values are good."""
        return "maximize" if self.problem.maximise else "minimize"

    @property
    def last_run(self) -> RunOptions | None:
        """Return the limits and batches of the last run, by any process; None before the first run."""
        stored = self._ledger.last_run
        return None if stored is None else RunOptions(**stored)

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
        """Return the best trial at the top fidelity; raise ValueError while there is none."""
        record = self._ledger.read()
        best = record.history.best
        if best is None:
            top = self.problem.ladder[self.problem.ladder.top].name
            raise ValueError(f"no trial at the top fidelity ({top}) has finished yet")
        return self._view(record, best.number)

    @property
    def best_params(self) -> Mapping[str, Any]:
        """Return the configuration of the best trial."""
        return self.best_trial.params

    @property
    def best_value(self) -> float:
        """Return the value of the best trial."""
        return float(self.best_trial.value or 0.0)

    def ask(self, n: int = 1) -> list[Trial]:
        """Return the next `n` trials to run, chosen jointly; fewer only while the policy waits for trials in flight.

        Trials that wait in the queue come first. Run them yourself and tell what they gave, from any process. Let only
        one process ask at a time.

        Example:
            >>> for trial in study.ask(5):
            ...     study.tell(trial, train(**trial.params, epochs=trial.fidelity))
        """
        n = whole_number("n", n)
        record = self._ledger.read()
        numbers = [entry.trial.number for entry in record.waiting[:n] if self._ledger.claim(entry, ASKED)]
        if len(numbers) < n:
            history = self.history
            queries, self._carry = self.policy.suggest(self._ledger.seed, history, n - len(numbers), self._carry)
            numbers += [self._ledger.add(query, owner=ASKED) for query in queries]
        return self._views(numbers)

    def enqueue(
        self, params: Mapping[str, Any], level: int | None = None, *, fidelity: FidelityValue | None = None
    ) -> Trial:
        """Queue a configuration of your own, at the top fidelity unless another is given; `ask` and `optimize` run it.

        Example:
            >>> study.enqueue({"lr": 0.01, "layers": 2}, fidelity=10)
        """
        place = import_export.level_of(self.problem.ladder, level, fidelity)
        number = self._ledger.add(Query(self.problem.space.encode(params), place))
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
        """Record what a trial gave, and return the trial: a number, or the reason why there is none.

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
            raise TypeError(f"tell needs a trial or its number, got {trial!r}")
        wanted = told_outcome.state_of(value, error, state)
        record = self._ledger.read()
        if not 0 <= number < len(record.entries):
            raise KeyError(f"there is no trial {number}; the study has {len(record.entries)}")
        entry = record.entries[number]
        outcome = told_outcome.outcome_of(self.problem.ladder, entry, value, error, cost=cost, seconds=seconds)
        # Refuses a second outcome before anything is written.
        record.history.with_outcome(number, outcome)
        if wanted == "waiting":
            self._ledger.requeue(entry, entry.owner, died=False)
        else:
            number = self._ledger.finish(entry, outcome)
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

        The record keeps them. Trials that wait are taken out of the queue. Optuna's dashboard still shows the values of
        dropped trials.

        Args:
            trials: the trials or their numbers.
            refund: whether to give back what they cost, and their places among `n_trials`.
        """
        return self._views(retry_and_drop.drop(self._ledger, trials, refund=refund))

    def recommendation(self) -> StudyRecommendation:
        """Return the configuration with the best expected value at the top fidelity.

        Raise TypeError if the study's method has no surrogate, ValueError if no trial has finished yet.
        """
        if not isinstance(self.policy, Recommending):
            raise TypeError("this study's method has no surrogate to recommend from; see best_trial")
        history = self.history
        if not history.done:
            raise ValueError("no trial has finished yet")
        found, self._carry = self.policy.recommendation(self._ledger.seed, history, self._carry)
        return StudyRecommendation(self.problem.space.decode(found.unit), found.mean, found.std)

    def answer(self) -> str:
        """Return in words which configuration to use, how sure that is, and why it is or is not the best observed."""
        history = self.history
        recommended = None
        if isinstance(self.policy, Recommending) and history.done:
            try:
                recommended = self.recommendation()
            except (ArithmeticError, ValueError, RuntimeError) as error:  # NumPy's, SciPy's and XLA's are all of these
                logger.warning("the model cannot recommend anything: %s", error)
        return run_messages.answer(history, recommended)

    def add_trial(
        self,
        params: Mapping[str, Any],
        value: Number,
        *,
        level: int | None = None,
        fidelity: FidelityValue | None = None,
        cost: Number | None = None,
    ) -> Trial:
        """Add a result that was found elsewhere, at the top unless a level or a fidelity is given; return its trial.

        The method uses it at once. It is free unless a cost is given, and no limit on trials counts it.
        """
        return self._added(
            [import_export.old_result(self.problem, params, value, level=level, fidelity=fidelity, cost=cost)]
        )[0]

    def add_trials(self, source: Any) -> list[Trial]:
        """Add the results of a pandas DataFrame, another bmbo study or an Optuna study, and return their trials.

        If one result does not fit, an error names it and nothing is added. A table has a column for each parameter (its
        name, or params_ and its name), a column `value`, and if you like `level` or `fidelity`, and `cost`. From a
        study, the trials with a value are taken; those of an Optuna study count as the top fidelity.
        """
        if isinstance(source, Study):
            rows: Iterable[Mapping[str, Any]] = [
                {"params": trial.params, "value": trial.value, "fidelity": trial.fidelity}
                for trial in source.trials
                if trial.state == "complete"
            ]
        else:
            rows = import_export.rows_of(source)
        return self._added(import_export.old_results(self.problem, rows))

    def _added(self, results: Sequence[tuple[Query, Outcome]]) -> list[Trial]:
        """Write results into the ledger, and return their trials."""
        return self._views([self._ledger.add(query, outcome) for query, outcome in results])

    def trials_dataframe(self) -> Any:
        """Return every trial as a row of a pandas DataFrame; raise ImportError if pandas is not installed."""
        return import_export.table(self.trials)

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

    def clean_checkpoints(self, keep: Keep = "useful") -> list[int]:
        """Remove checkpoint folders of finished trials, and return the numbers of these trials.

        Folders that trials in flight need always stay. "useful" also keeps the folder of the best trial and, for each
        configuration, that of its highest finished level below the top.
        """
        return clean(self.checkpoints, self.history, keep)

    def stop(self) -> None:
        """End the run of this process when the trials that run now are done; for callbacks and other threads.

        Raise RuntimeError if this process runs nothing.
        """
        if self._runner is None:
            raise RuntimeError("stop ends a run of this study in this process, and none is under way")
        self._runner.stop()

    def optimize(
        self,
        objective: Objective,
        *,
        total_cost: Number | None = None,
        n_trials: int | None = None,
        timeout: Number | None = None,
        batch_size: int = 1,
        n_workers: int = 1,
        executor: str | Executor = "auto",
        asynchronous: bool = False,
        trial_timeout: Number | None = None,
        callbacks: Sequence[Callback] = (),
        catch: type[BaseException] | Sequence[type[BaseException]] = (),
        max_failures: int | None = MAX_FAILURES,
        keep_checkpoints: Keep = "all",
        grace: Number = GRACE_SECONDS,
        show_progress_bar: bool | None = None,
    ) -> None:
        """Run trials until a limit is reached. Any number of processes may do so for one study at the same time.

        Unfinished work of others comes first: trials that wait, and trials whose worker is gone. If the method may
        recommend what was never evaluated at the top, the limits keep one evaluation there to confirm it at the end.
        Ctrl-C stops when the running trials are done, a second Ctrl-C at once. Call again to go on.

        Example:
            >>> study.optimize(objective, total_cost=2000, batch_size=5, n_workers=5)

        Args:
            objective: a function of a `Trial` that returns a real number.
            total_cost: what all trials of the study may cost together, with those that it holds already. If costs are
                measured, this is kept as well as durations can be foreseen.
            n_trials: how many trials the study may have, with those that it holds already.
            timeout: seconds after which this call starts nothing more.
            batch_size: trials chosen jointly; if asynchronous, trials kept in flight, at least one per worker.
            n_workers: how many trials run at the same time.
            executor: "inline" (this process), "process" (processes of this machine), "ray", an executor of your own, or
                "auto": inline for one worker without a `trial_timeout`, else process. An executor of your own stays
                open for the next run, unless this run ends in an exception.
            asynchronous: choose a trial as soon as a worker is free, not when the whole batch is done.
            trial_timeout: seconds after which a trial is killed and counts as failed.
            callbacks: functions of the study and a trial, called after each trial.
            catch: exceptions of the objective that only fail their trial; others end the run.
            max_failures: failures after which a run that had no success ends with `TooManyFailuresError`, because
                something else than the configurations is wrong then; None for never. A later failure ends nothing.
            keep_checkpoints: which checkpoint folders stay: "all", "useful" or "none"; see `clean_checkpoints`.
            grace: seconds of silence after which another process counts as dead.
            show_progress_bar: whether to show a progress bar; None for yes in a terminal or a notebook, else no. What
                else is shown, `bmbo.logging` says.
        """
        limits = Limits.checked(total_cost, n_trials, timeout)
        n_workers = whole_number("n_workers", n_workers)
        validation.check_total(limits, self.problem.ladder)
        if keep_checkpoints not in KEEPS:
            raise ValueError(f"keep_checkpoints must be one of {list(KEEPS)}, got {keep_checkpoints!r}")
        if self._runner is not None:
            raise RuntimeError("this study is being run already; other processes may join in, with load_study")
        caught = (catch,) if isinstance(catch, type) else tuple(catch)
        validation.check_callables(objective, callbacks, caught)
        options = LoopOptions(limits, batch_size, asynchronous, caught, max_failures, grace)
        engine = make_executor(executor, n_workers, trial_timeout)
        self._ledger.note_run(RunOptions(limits.total_cost, limits.n_trials, batch_size, asynchronous).stored)
        with Progress(self.history, limits.total_cost, limits.n_trials, show_progress_bar) as progress:

            def on_finished(record: LedgerSnapshot, number: int) -> None:
                progress.show(record.history)
                clean(self.checkpoints, record.history, keep_checkpoints)
                for callback in callbacks:
                    callback(self, self._view(record, number))

            try:
                runner = self._run(objective, engine, options, on_finished, progress)
            except BaseException:
                # This ends what still runs there.
                engine.close()
                raise
            if isinstance(executor, str):
                engine.close()
        is_whole = runner.num_finished > 0 and not runner.was_stopped
        # The answer may need a fit, which is wasted where nobody sees it.
        if is_whole and self.plans and self.answers and logger.isEnabledFor(logging.INFO):
            logger.info("%s", self.answer())

    def _run(
        self,
        objective: Objective,
        executor: Executor,
        options: LoopOptions,
        on_finished: Callable[[LedgerSnapshot, int], None],
        progress: Progress,
    ) -> Runner:
        """Run the loop, keep the policy's cache for the next run, and return what ran."""
        owner = Owner.new()
        self._runner = runner = Runner(
            self._ledger,
            owner,
            objective,
            executor,
            options,
            checkpoints=self.checkpoints,
            on_finished=on_finished,
        )
        try:
            if not self.plans:
                runner.run(Follower(self._ledger, options))
                return runner
            starts = run_messages.start_line(self.policy, self.history, options.limits)
            if starts is not None:
                logger.info("%s", starts)
            planner = Planner(
                self._ledger,
                owner,
                options,
                policy=self.policy,
                is_stopping=lambda: runner.is_stopping,
                carry=self._carry,
                choosing=progress.choosing,
            )
            try:
                runner.run(planner)
            finally:
                self._carry = planner.carry
        finally:
            self._runner = None
        return runner

    def _views(self, numbers: Sequence[int]) -> list[Trial]:
        """Return trials of the record as it is now."""
        record = self._ledger.read()
        return [self._view(record, number) for number in numbers]

    def _view(self, record: LedgerSnapshot, number: int) -> Trial:
        return view(self.checkpoints, record.history, record.entries[number])
