"""Run the trials of a study: start them and write down what they gave, as a driver or as one of many equal workers."""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from bmbo.executors import InlineExecutor
from bmbo.history import Outcome
from bmbo.ledger import Ledger, LedgerEntry, LedgerSnapshot, Owner, without_passwords
from bmbo.ledger.outages import leave_within, patient_for
from bmbo.protocols import Executor, Finished, RunningApart
from bmbo.study.checkpoints import is_left, source_of
from bmbo.study.heart import beating
from bmbo.study.lost_checkpoints import without_lost
from bmbo.study.noted_runs import Noted, noted_by, run_noting
from bmbo.study.planner import QueueKeeper, startable
from bmbo.study.reported_values import reported_values_for
from bmbo.study.returned import outcome_of_returned
from bmbo.study.run_messages import trial_line
from bmbo.study.run_options import LoopOptions
from bmbo.study.trial import Trial, view
from bmbo.study.unwritten import Result, save, write
from bmbo.study.waiting import LONGEST_PAUSE, SHORTEST_PAUSE, WaitingNotice, next_pause

logger = logging.getLogger("bmbo")

LEAVING_SECONDS = 10.0
"""How long the end of a run waits for a storage that is away; batch systems kill what does not end in half a minute."""

MOST_CANDIDATES = 100
"""How many waiting trials a process names of which it takes one: others take some of them at the same time."""


class TooManyFailuresError(RuntimeError):
    """Report that the first trials of a run all failed, so that the run was ended before more was spent."""


class Runner:
    """Claim what waits, run it, and write down what it gave.

    Args:
        ledger: the record of the study.
        owner: this process.
        objective: what is run.
        executor: where it is run.
        options: of the run.
        checkpoints: where the study keeps checkpoints.
        on_finished: called with the record and the number of a trial after the trial.

    Attributes:
        num_finished: how many trials this run has finished.
    """

    def __init__(
        self,
        ledger: Ledger,
        owner: Owner,
        objective: Callable[[Trial], object],
        executor: Executor,
        options: LoopOptions,
        *,
        checkpoints: Path,
        on_finished: Callable[[LedgerSnapshot, int], None],
    ) -> None:
        self._ledger = ledger
        self._owner = owner
        self._objective = objective
        self._executor = executor
        self._apart = isinstance(executor, RunningApart) and executor.runs_apart
        self._options = options
        self._checkpoints = checkpoints
        self._on_finished = on_finished
        self._in_flight: dict[int, LedgerEntry] = {}
        self._prices: dict[int, float] = {}
        # What has been found and is not written yet.
        self._found: dict[int, Result] = {}
        self._stopped = threading.Event()
        self._was_interrupted = False
        self._deadline = time.monotonic() + (options.limits.timeout or float("inf"))
        self._failure: BaseException | None = None
        self.num_finished = 0
        self._num_failed = 0
        self._has_success = False
        self._last_failed: tuple[int, str, BaseException | None] | None = None

    def stop(self) -> None:
        """Start nothing more; wait for what runs."""
        self._stopped.set()

    @property
    def was_stopped(self) -> bool:
        """Return whether the run was stopped, by a user or after an exception."""
        return self._stopped.is_set()

    @property
    def is_stopping(self) -> bool:
        """Return whether nothing more is to be started."""
        return self._stopped.is_set() or time.monotonic() >= self._deadline

    def run(self, queue: QueueKeeper) -> None:
        """Run until a limit is reached, the plan is finished, or `stop` is called.

        An exception of the objective that is not caught ends the run when the other running trials are done. An
        interrupt ends it at once, and the trials that ran are queued again. While the storage is away, all wait, and
        results are kept; what is still not written when the run ends goes to a file.

        Raises:
            StorageAwayError: The storage was away for longer than the options allow.
            StorageFullError: The disk of the storage is full.
            TooManyFailuresError: As many trials as the options allow have failed, and none of this run has succeeded.
            KeyboardInterrupt: Ctrl-C was pressed; everything is written down by then.
        """
        with patient_for(self._options.patience):
            try:
                heart = beating(self._ledger, self._owner, queue, self._in_flight, self._options.grace)
                with heart, self._first_interrupt_stops():
                    self._loop(queue)
            finally:
                leave_within(LEAVING_SECONDS)
                self._leave(queue)
        if self._failure is not None:
            raise self._failure
        if self._was_interrupted:
            raise KeyboardInterrupt
        if self._is_hopeless and self._last_failed is not None:
            number, error, exception = self._last_failed
            raise TooManyFailuresError(
                f"the first {self._num_failed} trials of this run failed and none succeeded, so it was ended "
                f"(max_failures={self._options.max_failures}); trial {number}: {error}; when the cause is corrected, "
                "study.retry() or bmbo retry queues failed trials again"
            ) from exception

    @property
    def _is_hopeless(self) -> bool:
        """Return whether so many trials have failed without a success that nothing more should be begun.

        A success among the trials that still run lets the run go on.
        """
        most = self._options.max_failures
        return bool(most) and self._num_failed >= most and not self._has_success

    def _loop(self, queue: QueueKeeper) -> None:
        """Tend the queue, start and collect until there is nothing left to do."""
        pause, notice = SHORTEST_PAUSE, WaitingNotice()
        while True:
            ends = self.is_stopping or self._is_hopeless
            snapshot, looked = None, 0.0
            if not ends:
                begun = time.monotonic()
                record = self._ledger.read()
                looked = time.monotonic() - begun
                snapshot = queue.tend(record, self._in_flight, self._executor.num_workers)
                self._start(snapshot)
            if not self._in_flight and (ends or queue.over is not None):
                return
            if self._in_flight or snapshot is None:
                notice.busy()
            else:
                notice.idle(snapshot)
            finished = self._executor.collect(LONGEST_PAUSE if self._in_flight else pause)
            for job in finished:
                self._conclude(job)
            pause = SHORTEST_PAUSE if finished else next_pause(pause, looked)

    def _start(self, snapshot: LedgerSnapshot) -> None:
        """Claim waiting trials in their order, and give them to free workers."""
        snapshot = without_lost(self._ledger, self._checkpoints, snapshot)
        waiting = startable(self._options.limits, snapshot, self._in_flight)

        def source(entry: LedgerEntry) -> int | None:
            found = source_of(self._checkpoints, snapshot.history, entry.trial.query)
            return None if found is None else found.number

        while waiting and len(self._in_flight) < self._executor.num_workers:
            some = waiting[:MOST_CANDIDATES]
            entry = self._ledger.claim_first(some, self._owner.text, source, apart=self._apart)
            last = some[-1] if entry is None else entry
            waiting = [each for each in waiting if each.trial.number > last.trial.number]
            if entry is not None:
                self._in_flight[entry.trial.number] = entry
                self._prices[entry.trial.number] = snapshot.history.price_of(entry.trial)
                on_the_way = reported_values_for(self._ledger, snapshot.history, entry)
                trial = view(self._checkpoints, snapshot.history, entry, on_the_way)
                self._executor.submit(entry.trial.number, partial(run_noting, self._objective, trial))

    def _conclude(self, job: Finished) -> None:
        """Write down what a job gave."""
        entry = self._in_flight[job.number]
        if job.lost:
            del self._in_flight[job.number]
            reason = without_passwords(job.error or "the place where it ran is gone")
            logger.warning("trial %d is queued again: %s", job.number, reason)
            self._ledger.requeue(entry, self._owner.text)
            return
        result, exception = self._result(entry, job)
        outcome = result.outcome
        self._found[job.number] = result
        number = write(self._ledger, result, self._owner.text)
        del self._found[job.number], self._in_flight[job.number]
        self.num_finished += 1
        if outcome.error is None:
            self._has_success = True
        else:
            self._num_failed += 1
            self._last_failed = (number, outcome.error, exception)
        record = self._ledger.read()
        level = logging.INFO if outcome.error is None else logging.WARNING
        # The line looks at all trials, which is wasted where nobody sees it.
        if logger.isEnabledFor(level):
            logger.log(level, "%s", trial_line(record.history, number, self._options.limits))
        if exception is not None and not isinstance(exception, self._options.catch):
            self._failure = self._failure or exception
            self.stop()
            if isinstance(exception, SystemExit):
                # It ends a program without a traceback.
                logger.warning(
                    "trial %d called sys.exit, which ends the run; catch=(Exception, SystemExit) goes on after it",
                    number,
                )
        self._on_finished(record, number)

    def _result(self, entry: LedgerEntry, job: Finished) -> tuple[Result, BaseException | None]:
        """Return the result to record, and the exception that came with it."""
        noted = noted_by(job.value, job.exception)
        outcome, notes, exception = self._outcome(entry, replace(job, value=noted.value), noted)
        reached = None if outcome.value is None else noted.reached
        return Result(entry, outcome, notes, noted.reported, reached), exception

    def _outcome(
        self, entry: LedgerEntry, job: Finished, noted: Noted
    ) -> tuple[Outcome, Mapping[str, Any], BaseException | None]:
        """Return the outcome to record, what is to be noted with it, and the exception that came with it."""
        problem, number = self._ledger.problem, entry.trial.number
        price = self._prices.pop(number)
        cost = job.seconds if problem.ladder.measured else price
        if job.error is not None:
            failure = Outcome(None, cost, job.seconds, without_passwords(job.error))
            return failure, noted.user_attrs, job.exception
        if noted.reached is not None and not problem.ladder.measured:
            costs = problem.ladder.costs
            cost = max(cost - costs[entry.trial.query.level] + costs[noted.reached], 0.0)
        try:
            outcome, notes = outcome_of_returned(problem, job.value, noted.user_attrs, cost, job.seconds)
        except TypeError as error:
            return Outcome(None, cost, job.seconds, f"TypeError: {error}"), noted.user_attrs, error
        left = problem.continues and outcome.value is not None and is_left(self._checkpoints, number)
        return replace(outcome, checkpoint=left), notes, None

    def _leave(self, queue: QueueKeeper) -> None:
        """Write what was found, queue what ran again, and give the lease back, as far as that is possible in time.

        Another thread does it: nothing else ends a call to a server that has stopped to answer.
        """
        self._keep_results()
        running = [entry for number, entry in self._in_flight.items() if number not in self._found]
        problems: list[Exception] = []

        def hand_over() -> None:
            try:
                for number, result in list(self._found.items()):
                    write(self._ledger, result, self._owner.text)
                    del self._found[number]
                for entry in running:
                    self._ledger.requeue(entry, self._owner.text, died=False)
                queue.leave()
            except Exception as error:
                problems.append(error)

        thread = threading.Thread(target=hand_over, name="bmbo-leave", daemon=True)
        thread.start()
        try:
            thread.join(LEAVING_SECONDS)
        finally:
            # Also where the user does not wait for the end of this.
            self._owner.leave()
            results = list(self._found.values())
            if results:
                save(self._checkpoints.parent, self._ledger, self._owner, results)
        if thread.is_alive() or problems:
            said = problems[0] if problems else f"the storage has not answered for {LEAVING_SECONDS:g} s"
            logger.warning("this run could not give its work back, others take it after the grace period: %s", said)

    def _keep_results(self) -> None:
        """Collect the results that have arrived while the run waited for the storage."""
        # An inline executor would begin the trial that it was just given.
        if not self._in_flight or isinstance(self._executor, InlineExecutor):
            return
        for job in self._executor.collect(0.0):
            # A worker may have failed for the same reason for which this run ends.
            if job.error is None and not job.lost:
                self._found[job.number] = self._result(self._in_flight[job.number], job)[0]

    @contextlib.contextmanager
    def _first_interrupt_stops(self) -> Generator[None, None, None]:
        """Stop the run at the first Ctrl-C and interrupt it at the second; only a main thread can listen."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def interrupted(number: int, frame: FrameType | None) -> None:
            del number, frame
            if self._stopped.is_set():
                raise KeyboardInterrupt
            self._was_interrupted = True
            self.stop()
            logger.warning("stopping: what runs is awaited; Ctrl-C once more ends it at once; both can be resumed")

        signal.signal(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            # None: the handler was not set from Python.
            signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
