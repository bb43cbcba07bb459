"""Keep the queue of a study filled: one process plans, the others follow its plan."""

import logging
from collections.abc import Callable, Container
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from bmbo.ledger import Ledger, LedgerEntry, LedgerSnapshot, Owner, SilenceWatch
from bmbo.ledger.attribute_keys import BEAT, OWNER
from bmbo.ledger.owners import is_dead
from bmbo.ledger.planner_lease import current_term
from bmbo.protocols import Policy
from bmbo.study.limits import Limits
from bmbo.study.next_queries import CONFIRMS, next_step
from bmbo.study.run_options import LoopOptions

logger = logging.getLogger("bmbo")


@runtime_checkable
class QueueKeeper(Protocol):
    """Keep the queue of a study filled, or watch others do so."""

    @property
    def over(self) -> str | None:
        """Return why nothing more will come, in words; None while something may come."""
        ...

    def tend(self, snapshot: LedgerSnapshot, in_flight: Container[int], num_workers: int) -> LedgerSnapshot:
        """Do what the queue needs now, and return the record after it.

        `in_flight` has the numbers of the trials that this process runs.
        """
        ...

    def beat(self) -> None:
        """Give a sign of life."""
        ...

    def leave(self) -> None:
        """Give the work to another process."""
        ...


class Planner:
    """Plan while holding the lease.

    A planner completes a plan that was cut off, queues trials again whose worker is gone, and plans more.

    Args:
        ledger: the record of the study.
        owner: this process.
        options: of the run.
        policy: what suggests.
        is_stopping: whether the run should start nothing more.
        carry: the policy's cache.
        choosing: makes a context for the time in which the policy chooses, to show it.
    """

    def __init__(
        self,
        ledger: Ledger,
        owner: Owner,
        options: LoopOptions,
        *,
        policy: Policy,
        is_stopping: Callable[[], bool],
        carry: Any = None,
        choosing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.carry = carry
        self._ledger = ledger
        self._options = options
        self._policy = policy
        self._is_stopping = is_stopping
        self._choosing = choosing
        self._lease = ledger.lease(owner, options.grace)
        self._watch = SilenceWatch(options.grace)
        self._over: str | None = None
        self._considered: tuple[int, ...] | None = None
        # Whether another process has planned during this run.
        self._follows = False

    @property
    def over(self) -> str | None:
        """See `QueueKeeper`."""
        return self._over

    def tend(self, snapshot: LedgerSnapshot, in_flight: Container[int], num_workers: int) -> LedgerSnapshot:
        """See `QueueKeeper`."""
        if not self._lease.believed:
            # A crowd need not hold the lease one after the other, only to learn that the run is over.
            if self._follows and self._options.limits.reached(snapshot.history) and self._lease.is_free():
                self._over = "the limits are reached"
                return snapshot
            if not self._lease.acquire():
                self._follows = True
                return snapshot
            self._ledger.complete_plan(self._lease.held, self._lease.term)
            snapshot = self._ledger.read()
        orphans = [entry for entry in snapshot.running if self._is_orphan(entry, in_flight)]
        if orphans and self._lease.held():
            for entry in orphans:
                logger.warning("trial %d is queued again: its worker is gone", entry.trial.number)
                # A trial that ran in another process did not end its owner.
                self._ledger.requeue(entry, entry.owner, died=not entry.apart)
            snapshot = self._ledger.read()
        busy = len(startable(self._options.limits, snapshot, in_flight)) + len(snapshot.running)
        asynchronous, batch_size = self._options.asynchronous, self._options.batch_size
        num = max(batch_size, num_workers) - busy if asynchronous else batch_size * (busy == 0)
        # The policy is asked once for each state: an empty answer holds until something changes.
        state = (len(snapshot.history.trials), len(snapshot.history.told), busy)
        if num < 1 or state == self._considered:
            return snapshot
        return self._plan(snapshot, num, busy, state)

    def beat(self) -> None:
        """See `QueueKeeper`."""
        self._lease.beat()

    def leave(self) -> None:
        """See `QueueKeeper`."""
        self._lease.release()

    def _plan(self, snapshot: LedgerSnapshot, num: int, busy: int, state: tuple[int, ...]) -> LedgerSnapshot:
        """Take the next step of the plan, and return the record after it."""
        seed, limits = self._ledger.seed, self._options.limits
        with self._choosing():
            step = next_step(seed, snapshot.history, limits, self._policy, num=num, busy=busy, carry=self.carry)
        self.carry = step.carry
        self._considered = None if step.queries else state
        if step.finished is not None:
            self._over = step.finished
            logger.info("the run is over: %s", step.finished)
        # Planning takes seconds: meanwhile the user may have stopped the run, or another planner may have taken over.
        elif step.queries and not self._is_stopping():
            if CONFIRMS in step.queries[-1].tag:
                logger.info("the recommendation is confirmed at the top fidelity, as trial %d", len(snapshot.entries))
            self._ledger.plan(snapshot.next_batch, step.queries, self._lease.held, self._lease.term)
            return self._ledger.read()
        return snapshot

    def _is_orphan(self, entry: LedgerEntry, in_flight: Container[int]) -> bool:
        """Return whether the worker of a running trial is gone."""
        if entry.trial.number in in_flight:
            return False
        silent = self._watch.is_silent(entry.trial.number, (entry.owner, entry.beat, entry.retries))
        return silent or is_dead(entry.owner)


class Follower:
    """Plan nothing, and see when no other process plans any more.

    Args:
        ledger: the record of the study.
        options: of the run.
    """

    def __init__(self, ledger: Ledger, options: LoopOptions) -> None:
        self._ledger = ledger
        self._limits = options.limits
        self._silence = SilenceWatch(options.grace)
        self._over: str | None = None

    @property
    def over(self) -> str | None:
        """See `QueueKeeper`."""
        return self._over

    def tend(self, snapshot: LedgerSnapshot, in_flight: Container[int], num_workers: int) -> LedgerSnapshot:
        """See `QueueKeeper`."""
        del in_flight, num_workers
        term = current_term(self._ledger.storage, self._ledger.name)
        sign = None if term is None else (term.number, term.attributes.get(OWNER), term.attributes.get(BEAT))
        is_silent = self._silence.is_silent("planner", sign)
        if not snapshot.waiting:
            if self._limits.reached(snapshot.history):
                self._over = "the limits are reached"
            elif is_silent:
                self._over = "no process plans this study any more"
        return snapshot

    def beat(self) -> None:
        """See `QueueKeeper`."""

    def leave(self) -> None:
        """See `QueueKeeper`."""


def startable(limits: Limits, snapshot: LedgerSnapshot, in_flight: Container[int]) -> list[LedgerEntry]:
    """Return the waiting trials that the limits allow, without those that still run in this process."""
    trials = limits.startable(snapshot.history, [entry.trial for entry in snapshot.waiting])
    return [snapshot.entries[trial.number] for trial in trials if trial.number not in in_flight]
