"""The one loop that runs studies: a driver with many workers, or one of many workers without a driver."""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from jaxtyping import PRNGKeyArray

from bmbo.history import Outcome
from bmbo.ledger import Entry, Ledger, Owner, Record, Watch
from bmbo.ledger.owners import is_dead
from bmbo.problem import Number
from bmbo.protocols import Executor, Finished, Policy
from bmbo.study.checkpoints import source_of
from bmbo.study.planning import CONFIRMS, Limits, next_step
from bmbo.study.trial import Trial, as_number, view

logger = logging.getLogger("bmbo")

GRACE_SECONDS = 120.0
"""Silence after which a planner or a worker is taken for dead: longer than any pause of a machine that lives."""

BEATS_A_GRACE = 6
"""Signs of life in a grace period: several may be lost."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
"""Between looks at the ledger while others work: doubled from the one to the other."""


@dataclass(frozen=True)
class Options:
    """How a study is run.

    Attributes:
        limits: when it ends.
        batch_size: trials planned together; of an asynchronous run, trials kept in flight, at least one a worker.
        asynchronous: plan as soon as a place is free, not when a batch is over.
        catch: exceptions that fail their trial and do not end the run.
        grace: seconds of silence after which others are taken for dead.
    """

    limits: Limits
    batch_size: int = 1
    asynchronous: bool = False
    catch: tuple[type[BaseException], ...] = ()
    grace: Number = GRACE_SECONDS

    def __post_init__(self) -> None:
        if isinstance(self.batch_size, bool) or not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise ValueError(f"batch_size must be a whole number of at least 1, got {self.batch_size!r}")
        if not self.grace > 0:
            raise ValueError(f"grace must be positive, got {self.grace!r}")


class Runner:
    """Plans while it holds the lease, claims what waits, runs it, and writes what came of it."""

    def __init__(
        self,
        ledger: Ledger,
        objective: Callable[[Trial], object],
        executor: Executor,
        options: Options,
        *,
        policy: Policy,
        key: PRNGKeyArray,
        checkpoints: Path,
        on_finished: Callable[[Record, int], None],
        carry: Any = None,
    ) -> None:
        self.carry = carry
        self._ledger = ledger
        self._policy = policy
        self._key = key
        self._objective = objective
        self._executor = executor
        self._options = options
        self._checkpoints = checkpoints
        self._on_finished = on_finished
        self._owner = Owner.new()
        self._lease = ledger.lease(self._owner, options.grace)
        self._watch = Watch(options.grace)
        self._in_flight: dict[int, Entry] = {}
        self._stopped = threading.Event()
        self._deadline = time.monotonic() + (options.limits.timeout or float("inf"))
        self._over: str | None = None
        self._failure: BaseException | None = None
        self._considered: tuple[int, ...] | None = None

    def stop(self) -> None:
        """Starts nothing more; what runs is awaited."""
        self._stopped.set()

    def run(self) -> None:
        """Runs until a limit is reached, the plan is finished, or `stop` is called.

        An exception of the objective that is not caught ends the run after what else runs; an interrupt ends it at
        once, and what ran is queued again.
        """
        try:
            with self._heart(), self._first_interrupt_stops():
                self._loop()
        finally:
            for entry in self._in_flight.values():
                self._ledger.requeue(entry, self._owner.text, died=False)
            self._lease.release()
            self._owner.leave()
        if self._failure is not None:
            raise self._failure

    def _loop(self) -> None:
        pause = SHORTEST_PAUSE
        while True:
            if not self._is_stopping:
                self._start(self._tended(self._ledger.read()))
            if not self._in_flight and (self._is_stopping or self._over is not None):
                return
            finished = self._executor.collect(LONGEST_PAUSE if self._in_flight else pause)
            for job in finished:
                self._conclude(job)
            pause = SHORTEST_PAUSE if finished else min(2 * pause, LONGEST_PAUSE)

    @property
    def _is_stopping(self) -> bool:
        return self._stopped.is_set() or time.monotonic() >= self._deadline

    def _tended(self, record: Record) -> Record:
        """The record after what a planner owes it: a cut plan completed, orphans queued again, more planned."""
        if not self._lease.believed:
            if not self._lease.acquire():
                return record
            self._ledger.complete_plan(self._lease.held)
            record = self._ledger.read()
        orphans = [entry for entry in record.running if self._is_orphan(entry)]
        if orphans and self._lease.held():
            for entry in orphans:
                logger.warning("trial %d is queued again: its worker is gone", entry.trial.number)
                self._ledger.requeue(entry, entry.owner)
            record = self._ledger.read()
        busy = len(self._startable(record)) + len(record.running)
        asynchronous, batch_size = self._options.asynchronous, self._options.batch_size
        num = max(batch_size, self._executor.num_workers) - busy if asynchronous else batch_size * (busy == 0)
        # Asked once for each state of things: an answer of nothing holds until something changes.
        state = (len(record.history.trials), len(record.history.told), busy)
        if num < 1 or state == self._considered:
            return record
        return self._planned(record, num, busy, state)

    def _planned(self, record: Record, num: int, busy: int, state: tuple[int, ...]) -> Record:
        limits = self._options.limits
        step = next_step(self._key, record.history, limits, self._policy, num=num, busy=busy, carry=self.carry)
        self.carry = step.carry
        self._considered = None if step.queries else state
        if step.finished is not None:
            self._over = step.finished
            logger.info("the run is over: %s", step.finished)
        # Planning takes seconds: meanwhile the user may have stopped the run, or another planner come.
        elif step.queries and not self._is_stopping and self._lease.held():
            if CONFIRMS in step.queries[-1].tag:
                logger.info("the recommendation is confirmed at the top fidelity, as trial %d", len(record.entries))
            self._ledger.plan(record.next_batch, step.queries, self._lease.held)
            return self._ledger.read()
        return record

    def _is_orphan(self, entry: Entry) -> bool:
        if entry.trial.number in self._in_flight:
            return False
        silent = self._watch.is_silent(entry.trial.number, (entry.owner, entry.beat, entry.retries))
        return silent or is_dead(entry.owner)

    def _startable(self, record: Record) -> list[Entry]:
        """What waits and may be run within the limits; not what others queued again while it still runs here."""
        trials = self._options.limits.startable(record.history, [entry.trial for entry in record.waiting])
        return [record.entries[trial.number] for trial in trials if trial.number not in self._in_flight]

    def _start(self, record: Record) -> None:
        """Claims what waits, in order, into free places."""
        for entry in self._startable(record):
            if len(self._in_flight) >= self._executor.num_workers:
                return
            source = source_of(self._checkpoints, record.history, entry.trial.query)
            if self._ledger.claim(entry, self._owner.text, None if source is None else source.number):
                self._in_flight[entry.trial.number] = entry
                trial = view(self._checkpoints, record.history, replace(entry, state="running"))
                self._executor.submit(entry.trial.number, partial(self._objective, trial))

    def _conclude(self, job: Finished) -> None:
        entry = self._in_flight[job.number]
        if job.lost:
            del self._in_flight[job.number]
            logger.warning("trial %d is queued again: %s", job.number, job.error or "the place where it ran is gone")
            self._ledger.requeue(entry, self._owner.text)
            return
        outcome, exception = self._outcome(entry, job)
        number = self._ledger.finish(entry, outcome, self._owner.text)
        del self._in_flight[job.number]
        if outcome.error is not None:
            logger.warning("trial %d failed: %s", number, outcome.error)
        if exception is not None and not isinstance(exception, self._options.catch):
            self._failure = self._failure or exception
            self.stop()
        self._on_finished(self._ledger.read(), number)

    def _outcome(self, entry: Entry, job: Finished) -> tuple[Outcome, BaseException | None]:
        """What to record, and the exception that came with it."""
        price = self._ledger.problem.ladder[entry.trial.query.level].cost
        cost = job.seconds if price == "measure" else float(price)
        if job.error is not None:
            return Outcome(None, cost, job.seconds, job.error), job.exception
        try:
            return Outcome.of(as_number(job.value), cost, job.seconds), None
        except TypeError as error:
            return Outcome(None, cost, job.seconds, f"TypeError: {error}"), error

    @contextlib.contextmanager
    def _heart(self) -> Generator[None, None, None]:
        """Keeps the lease and the claimed trials alive from a thread of its own while planning or running."""
        ended = threading.Event()

        def beat() -> None:
            count = 0
            while not ended.wait(self._options.grace / BEATS_A_GRACE):
                count += 1
                self._lease.beat()
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
        """The first Ctrl-C stops the run, a second one interrupts it; only a main thread can listen."""
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
            # None: it was set by what is no Python.
            signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
