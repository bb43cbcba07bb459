"""Define the study that users work with: it joins a problem, a policy and the record of what was run."""

import inspect
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bmbo.executors import make_executor
from bmbo.history import History, Query
from bmbo.ledger import ASKED, Ledger, LedgerSnapshot, Owner
from bmbo.ledger.outages import PATIENCE_SECONDS, patient_for
from bmbo.problem import Number
from bmbo.problem.number_checks import whole_number
from bmbo.protocols import Executor, Policy
from bmbo.study import budget_messages, validation
from bmbo.study.checkpoints import Keep, clean, source_of
from bmbo.study.editable_study import EditableStudy
from bmbo.study.limits import Limits
from bmbo.study.lost_checkpoints import without_lost
from bmbo.study.names_of_optuna import NoSuchArgument, refuse_arguments
from bmbo.study.planner import Follower, Planner
from bmbo.study.progress import Progress
from bmbo.study.reported_values import reported_values_for
from bmbo.study.run_loop import Runner
from bmbo.study.run_options import GRACE_SECONDS, MAX_FAILURES, LoopOptions, RunOptions
from bmbo.study.stored_method import note_method, require_method
from bmbo.study.trial import Trial, view

CHOICES = 5
"""How often `ask` chooses anew because others have added trials meanwhile."""

logger = logging.getLogger("bmbo")

Objective = Callable[[Trial], Any]
Callback = Callable[["Study", Trial], object]


class Study(EditableStudy):
    """Run a search and read its results. `create_study` makes a study, and `load_study` finds it again.

    Attributes:
        policy: what suggests.
        checkpoints: where checkpoint folders are made.
        plans: whether runs in this process plan; if not, they end when no other process plans any more.
        answers: whether runs in this process end with `answer` in the log. Runs that do not plan never do.
    """

    def __init__(self, ledger: Ledger, policy: Policy, checkpoints: Path) -> None:
        super().__init__(ledger, policy, checkpoints)
        self.plans = True
        self.answers = True
        self._runner: Runner | None = None

    def ask(self, n: int = 1) -> list[Trial]:
        """Return the next `n` trials to run, chosen jointly; fewer only while the policy waits for trials in flight.

        Trials that wait in the queue come first. Run them yourself and tell what they gave, from any process. Processes
        that ask at the same time get different trials: who is late by a moment chooses anew.

        Example:
            >>> for trial in study.ask(5):
            ...     study.tell(trial, train(**trial.params, epochs=trial.fidelity))
        """
        n = whole_number("n", n)
        require_method(self.policy)
        record = without_lost(self._ledger, self.checkpoints, self._ledger.read())
        numbers = [
            entry.trial.number
            for entry in record.waiting[:n]
            if self._ledger.claim(entry, ASKED, self._continued(record.history, entry.trial.query))
        ]
        if len(numbers) < n:
            note_method(self._ledger, self.policy)
            numbers += self._chosen(n - len(numbers))
        begun = self._ledger.read()
        return [self._running(begun, number) for number in numbers]

    def _chosen(self, n: int) -> list[int]:
        """Choose new trials, write them and return their numbers; choose anew if others have added some meanwhile."""
        numbers: list[int] = []
        for tries_left in reversed(range(CHOICES)):
            history = self.history
            queries, self._carry = self.policy.suggest(self._ledger.seed, history, n - len(numbers), self._carry)
            sources = [self._continued(history, query) for query in queries]
            # In a crowd that never stands still, what is chosen twice is better than nothing.
            after = len(history.trials) if tries_left else None
            added = self._ledger.add_asked(queries, sources, after)
            numbers += added
            if len(added) == len(queries):
                break
        return numbers

    def _running(self, record: LedgerSnapshot, number: int) -> Trial:
        """Return a trial that a user is about to run."""
        entry = record.entries[number]
        return view(self.checkpoints, record.history, entry, reported_values_for(self._ledger, record.history, entry))

    def _continued(self, history: History, query: Query) -> int | None:
        """Return the number of the trial from which a query goes on, if its cost depends on that."""
        found = source_of(self.checkpoints, history, query) if self.problem.continues else None
        return None if found is None else found.number

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
        n_trials: int | None = None,
        *,
        total_cost: Number | None = None,
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
        patience: Number = PATIENCE_SECONDS,
        show_progress_bar: bool | None = None,
        **mistaken: NoSuchArgument,
    ) -> None:
        """Run trials until a limit is reached. Any number of processes may do so for one study at the same time.

        Unfinished work of others comes first: trials that wait, and trials whose worker is gone. If the method may
        recommend what was never evaluated at the top, the limits keep one evaluation there to confirm it at the end.
        After Ctrl-C, running trials are awaited and written down, and then KeyboardInterrupt is raised. A second Ctrl-C
        ends them at once. Call again to go on.

        Example:
            >>> study.optimize(objective, total_cost=2000, batch_size=5, n_workers=5)

        Args:
            objective: a function of a `Trial` that returns a real number.
            n_trials: how many trials the study may have, with those that it holds already.
            total_cost: what all trials of the study may cost together, with those that it holds already. If costs are
                measured, this is kept as well as durations can be foreseen.
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
            patience: seconds that the run waits for a storage that is away, before it ends with an error.
            show_progress_bar: whether to show a progress bar; None for yes in a terminal or a notebook, else no. What
                else is shown, `bmbo.logging` says.
            mistaken: no further argument is known; an error says which one is meant.
        """
        refuse_arguments("optimize", mistaken, inspect.signature(self.optimize).parameters)
        if self.plans:
            require_method(self.policy)
        limits = Limits.checked(total_cost, n_trials, timeout)
        n_workers = whole_number("n_workers", n_workers)
        validation.check_total(limits, self.problem.ladder)
        validation.check_keep(keep_checkpoints, self.problem)
        if self._runner is not None:
            raise RuntimeError("this study is being run already; other processes may join in, with load_study")
        caught = validation.checked_catch(catch)
        validation.check_callables(objective, callbacks)
        batch_size, asynchronous = whole_number("batch_size", batch_size), bool(asynchronous)
        options = LoopOptions(limits, batch_size, asynchronous, caught, max_failures, grace, patience)
        engine = make_executor(executor, n_workers, trial_timeout)
        with (
            patient_for(options.patience),
            Progress(self.history, limits, show_progress_bar) as progress,
        ):
            if self.plans:
                note_method(self._ledger, self.policy)
            self._ledger.note_run(RunOptions(limits.total_cost, limits.n_trials, batch_size, asynchronous).stored)

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

    def _announce(self, limits: Limits) -> None:
        """Say what the limits of a run buy."""
        history = self.history
        reached = budget_messages.reached_line(self.policy, history, limits)
        amiss = reached or budget_messages.too_small_line(self.policy, history, limits)
        if amiss is not None:
            logger.warning("%s", amiss)
        goes_on = None if reached else budget_messages.counted_line(history, limits)
        for line in (budget_messages.start_line(self.policy, history, limits), goes_on):
            if line is not None:
                logger.info("%s", line)

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
            self._announce(options.limits)
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
