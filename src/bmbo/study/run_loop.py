"""Run the trials of a study: start them and write down what they gave, as a driver or as one of many equal workers."""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from bmbo.history import Outcome
from bmbo.ledger import Ledger, LedgerEntry, LedgerSnapshot, Owner
from bmbo.protocols import Executor, Finished
from bmbo.study.checkpoints import source_of
from bmbo.study.planner import QueueKeeper, startable
from bmbo.study.run_messages import trial_line
from bmbo.study.run_options import LoopOptions
from bmbo.study.trial import Trial, as_number, view

logger = logging.getLogger("bmbo")

BEATS_PER_GRACE = 6
"""Signs of life in a grace period: several may be lost."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
"""Seconds between looks at the ledger while others work. The pause doubles from the first to the second."""


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
        self._options = options
        self._checkpoints = checkpoints
        self._on_finished = on_finished
        self._in_flight: dict[int, LedgerEntry] = {}
        self._stopped = threading.Event()
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
        interrupt ends it at once, and the trials that ran are queued again.

        Raises:
            TooManyFailuresError: As many trials as the options allow have failed, and none of this run has succeeded.
        """
        try:
            with self._heart(queue), self._first_interrupt_stops():
                self._loop(queue)
        finally:
            for entry in self._in_flight.values():
                self._ledger.requeue(entry, self._owner.text, died=False)
            queue.leave()
            self._owner.leave()
        if self._failure is not None:
            raise self._failure
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
        pause = SHORTEST_PAUSE
        while True:
            ends = self.is_stopping or self._is_hopeless
            if not ends:
                self._start(queue.tend(self._ledger.read(), self._in_flight, self._executor.num_workers))
            if not self._in_flight and (ends or queue.over is not None):
                return
            finished = self._executor.collect(LONGEST_PAUSE if self._in_flight else pause)
            for job in finished:
                self._conclude(job)
            pause = SHORTEST_PAUSE if finished else min(2 * pause, LONGEST_PAUSE)

    def _start(self, snapshot: LedgerSnapshot) -> None:
        """Claim waiting trials in their order, and give them to free workers."""
        for entry in startable(self._options.limits, snapshot, self._in_flight):
            if len(self._in_flight) >= self._executor.num_workers:
                return
            source = source_of(self._checkpoints, snapshot.history, entry.trial.query)
            if self._ledger.claim(entry, self._owner.text, None if source is None else source.number):
                self._in_flight[entry.trial.number] = entry
                trial = view(self._checkpoints, snapshot.history, replace(entry, state="running"))
                self._executor.submit(entry.trial.number, partial(self._objective, trial))

    def _conclude(self, job: Finished) -> None:
        """Write down what a job gave."""
        entry = self._in_flight[job.number]
        if job.lost:
            del self._in_flight[job.number]
            logger.warning("trial %d is queued again: %s", job.number, job.error or "the place where it ran is gone")
            self._ledger.requeue(entry, self._owner.text)
            return
        outcome, exception = self._outcome(entry, job)
        number = self._ledger.finish(entry, outcome, self._owner.text)
        del self._in_flight[job.number]
        self.num_finished += 1
        if outcome.error is None:
            self._has_success = True
        else:
            self._num_failed += 1
            self._last_failed = (number, outcome.error, exception)
        record = self._ledger.read()
        level = logging.INFO if outcome.error is None else logging.WARNING
        logger.log(level, "%s", trial_line(record.history, number, self._options.limits))
        if exception is not None and not isinstance(exception, self._options.catch):
            self._failure = self._failure or exception
            self.stop()
        self._on_finished(record, number)

    def _outcome(self, entry: LedgerEntry, job: Finished) -> tuple[Outcome, BaseException | None]:
        """Return the outcome to record, and the exception that came with it."""
        price = self._ledger.problem.ladder[entry.trial.query.level].cost
        cost = job.seconds if price == "measure" else float(price)
        if job.error is not None:
            return Outcome(None, cost, job.seconds, job.error), job.exception
        try:
            return Outcome.of(as_number(job.value), cost, job.seconds), None
        except TypeError as error:
            return Outcome(None, cost, job.seconds, f"TypeError: {error}"), error

    @contextlib.contextmanager
    def _heart(self, queue: QueueKeeper) -> Generator[None, None, None]:
        """Keep the lease and the claimed trials alive from a separate thread while planning or running."""
        ended = threading.Event()

        def beat() -> None:
            count = 0
            while not ended.wait(self._options.grace / BEATS_PER_GRACE):
                count += 1
                queue.beat()
                for entry in list(self._in_flight.values()):
                    self._ledger.beat(entry, count)

        thread = threading.Thread(target=beat, name="bmbo-heart", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

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
            self.stop()
            logger.warning("stopping: what runs is awaited; Ctrl-C once more ends it at once; both can be resumed")

        signal.signal(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            # None: the handler was not set from Python.
            signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
