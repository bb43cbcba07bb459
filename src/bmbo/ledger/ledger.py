"""Read and write the ledger of one study.

Every method writes in small steps, and the ledger is consistent after each step. A process can therefore die at any
moment without damage to the study.
"""

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError

from bmbo.history import Outcome
from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.damage import tells_of_failed_writing
from bmbo.ledger.found_study import found_study, made_study
from bmbo.ledger.ledger_entries import ASKED, LedgerEntry, attempt_of
from bmbo.ledger.marks import mark_key
from bmbo.ledger.outages import with_retries
from bmbo.ledger.owners import Owner
from bmbo.ledger.planned_ledger import PlannedLedger
from bmbo.ledger.planner_lease import delete_terms
from bmbo.ledger.storages import Storage
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.ledger.trial_store import Ending
from bmbo.problem import Feasible

MAX_RETRIES = 2
"""How often a trial is queued again after its worker died; a trial that kills three workers is probably at fault."""


class Ledger(PlannedLedger):
    """Read and write the record of one study in an Optuna storage; make it with `create` or `load`."""

    @classmethod
    def create(cls, storage: Storage, name: str | None, definition: StudyDefinition, load_if_exists: bool) -> "Ledger":
        """Return the ledger of a new study, or with `load_if_exists` that of the study with this name.

        Raises:
            ValueError: The name is taken, or the study of this name has another problem.
        """
        return cls(*made_study(storage, name, definition, load_if_exists))

    @classmethod
    def load(cls, storage: Storage, name: str) -> "Ledger":
        """Return the ledger of the study with this name; raise ValueError if bmbo made no such study."""
        return cls(*found_study(storage, name))

    def with_feasible(self, feasible: Feasible) -> "Ledger":
        """Return this ledger with the function that says what may be run; raise ValueError if the study has none."""
        if self.problem.feasible is None:
            raise ValueError(f"study {self.name!r} was made without feasible, and keeps to that; leave it out")
        definition = self._definition.with_feasible(feasible)
        return type(self)(self.storage, self.name, self._study_id, definition)

    @tells_of_failed_writing
    def claim(self, entry: LedgerEntry, owner: str, resume_from: int | None = None, *, apart: bool = False) -> bool:
        """Take a waiting trial and return whether it worked; of several processes that try, only one succeeds.

        Args:
            entry: the trial.
            owner: the process that takes it.
            resume_from: number of the trial whose checkpoint it continues.
            apart: whether it will run in another process than its owner.
        """
        return self.claim_first([entry], owner, lambda _: resume_from, apart=apart) is not None

    @tells_of_failed_writing
    def claim_first(
        self,
        entries: Sequence[LedgerEntry],
        owner: str,
        source_of: Callable[[LedgerEntry], int | None],
        *,
        apart: bool = False,
    ) -> LedgerEntry | None:
        """Take the first of some trials that still waits, and return it as it runs now; None if all are taken.

        Args:
            entries: the trials, in their order. They waited when they were read.
            owner: the process that takes one.
            source_of: returns the number of the trial whose checkpoint a trial continues.
            apart: whether it will run in another process than its owner.
        """
        begun: dict[int, LedgerEntry] = {}
        waiting = {entry.trial_id: entry for entry in entries}

        def attributes(trial_id: int) -> Mapping[str, Any]:
            entry = waiting[trial_id]
            source = source_of(entry)
            begun[trial_id] = replace(entry, state="running", trial=replace(entry.trial, resumed_from=source))
            written: dict[str, Any] = {keys.OWNER: owner}
            if apart != entry.apart:
                written[keys.APART] = apart
            # An earlier try of the trial may have begun from another checkpoint.
            if source != entry.resume_from:
                written[keys.RESUME_FROM] = source
            return written

        taken = self._trials.claim(list(waiting), attributes)
        return None if taken is None else begun[taken]

    def beat(self, entry: LedgerEntry, owner: str, count: int) -> bool:
        """Write a sign of life for a running trial; return False, and write nothing, if it is not its owner's any more.

        A trial that was taken from its owner and that nobody has begun since is taken back.
        """
        stored = self._stored(entry)
        if stored.state == "waiting":
            return self.claim(stored, owner, entry.resume_from, apart=stored.apart)
        if stored.owner != owner:
            return False
        with contextlib.suppress(UpdateFinishedTrialError):
            self._trials.note(entry.trial_id, {keys.BEAT: count})
        return True

    def note_reported(self, trial_id: int, reported: Mapping[int, float]) -> None:
        """Write what a running trial has reported so far; a trial that has ended keeps what it has."""
        with contextlib.suppress(UpdateFinishedTrialError):
            self._trials.note(trial_id, mapping.reported_attributes(reported))

    @tells_of_failed_writing
    def finish(
        self,
        entry: LedgerEntry,
        outcome: Outcome,
        owner: str | None = None,
        user_attrs: Mapping[str, Any] | None = None,
        *,
        reported: Mapping[int, float] | None = None,
        reached: int | None = None,
    ) -> int:
        """Write an outcome and return the number of the trial that holds it.

        The first outcome finishes the trial. The outcome of another attempt is stored as one more trial, whatever its
        value, because it was run and paid for too. The same attempt again changes nothing: an earlier call was stored,
        but the storage's answer was lost. Without an owner, every call is an attempt of its own.

        Args:
            entry: the trial.
            outcome: what came of it.
            owner: the process that ran it.
            user_attrs: what was noted on it.
            reported: what it reported on its way, by levels.
            reached: the level to which it came, if it was stopped below the one at which it was planned.
        """
        number = entry.trial.number
        attempt = attempt_of(owner or f"{ASKED}|{uuid.uuid4().hex}", entry)
        try:
            self._end(entry, outcome, attempt, user_attrs, reported=reported, reached=reached)
        except UpdateFinishedTrialError:
            known = self._told_by(entry, attempt)
            if known is not None:
                return known
            query = entry.trial.query if reached is None else replace(entry.trial.query, level=reached)
            return self.add(query, outcome, duplicate_of=number, told_by=attempt, params=entry.params)
        return number

    @tells_of_failed_writing
    def requeue(self, entry: LedgerEntry, owner: str | None, died: bool = True) -> None:
        """Put a running trial back into the queue, or let it fail if its workers died too often.

        Nothing is done to a trial that has ended, or that has another owner by now.

        Args:
            entry: the trial.
            owner: the process that ran it.
            died: whether that process died and the trial may have been the cause; nothing else counts as a retry.
        """
        stored = self._stored(entry)
        if stored.state != "running" or stored.owner != owner:
            return
        if died and stored.retries >= MAX_RETRIES:
            with contextlib.suppress(UpdateFinishedTrialError):
                self._end(entry, self._failure(entry, f"its worker died {MAX_RETRIES + 1} times"))
            return
        self._trials.requeue(entry.trial_id, owner, {keys.RETRIES: stored.retries + 1} if died else {})

    @tells_of_failed_writing
    def drop(self, entry: LedgerEntry) -> bool:
        """Mark a trial as dropped, so that nothing counts it as known; return False if a process runs it.

        A trial that waits is taken out of the queue first: it fails without cost, and its place is given back. A trial
        that a user asked for fails at the cost of its level.
        """
        if entry.state == "waiting":
            owner = Owner.new()
            try:
                if not self.claim(entry, owner.text):
                    return False
                # It can only have ended by an earlier try of this call, whose answer was lost.
                with contextlib.suppress(UpdateFinishedTrialError):
                    self._end(entry, Outcome(None, 0.0, error="it was dropped before it ran"))
            finally:
                owner.leave()
            self.refund(entry)
        elif entry.state == "running" and entry.owner == ASKED:
            # If its outcome arrives right now, that one is dropped.
            with contextlib.suppress(UpdateFinishedTrialError):
                self._end(entry, self._failure(entry, "it was dropped before it was told"))
        elif entry.trial.outcome is None:
            return False
        self._mark(keys.DROPPED, entry.trial.number)
        return True

    @tells_of_failed_writing
    def refund(self, entry: LedgerEntry) -> None:
        """Give the cost of a finished trial back, and its place among the trials that limits count."""
        self._mark(keys.REFUNDED, entry.trial.number)

    @tells_of_failed_writing
    def note_lost(self, number: int) -> None:
        """Note that the checkpoint of a finished trial is gone, so that nothing is planned to go on from it."""
        self._mark(keys.LOST, number)

    def delete(self) -> None:
        """Delete the study and the record of who planned it."""
        # No such study: another process deleted it, or an earlier try of this call did.
        with contextlib.suppress(KeyError):
            with_retries(lambda: self.storage.delete_study(self._study_id))
        delete_terms(self.storage, self.name)

    def _mark(self, name: str, number: int) -> None:
        key = mark_key(name, number)
        with_retries(lambda: self.storage.set_study_user_attr(self._study_id, key, True))

    def _failure(self, entry: LedgerEntry, error: str) -> Outcome:
        """Return the outcome of a trial that nobody has seen end, at the cost of its level."""
        cost = 0.0 if self.problem.ladder.measured else self.read().history.price_of(entry.trial)
        return Outcome(None, cost, error=error)

    def _told_by(self, entry: LedgerEntry, attempt: str) -> int | None:
        """Return the number of the trial that holds the outcome of an attempt, or None if it is not stored."""
        if self._stored(entry).told_by == attempt:
            return entry.trial.number
        number = entry.trial.number
        again = (each for each in self.read().entries if each.duplicate_of == number and each.told_by == attempt)
        return next((each.trial.number for each in again), None)

    def _end(
        self,
        entry: LedgerEntry,
        outcome: Outcome,
        attempt: str | None = None,
        user_attrs: Mapping[str, Any] | None = None,
        *,
        reported: Mapping[int, float] | None = None,
        reached: int | None = None,
    ) -> None:
        """Write an outcome, and what a user noted with it; raise UpdateFinishedTrialError if the trial has one."""
        planned = entry.trial.query.level
        level = planned if reached is None else reached
        attributes = {**(user_attrs or {}), **mapping.outcome_attributes(outcome, self.problem)}
        attributes |= mapping.reported_attributes(reported or {})
        if level != planned:
            attributes |= mapping.reached_attributes(self.problem, entry, level)
        if attempt is not None:
            attributes[keys.TOLD_BY] = attempt
        new = {key: value for key, value in attributes.items() if self._is_new(planned, key, value)}
        step = mapping.shown_step(self.problem, level)
        state = mapping.optuna_state(self.problem, level, outcome)
        system = mapping.system_attributes(outcome, self.problem)
        self._trials.end(entry.trial_id, Ending(state, outcome.values, step, new, system))

    @tells_of_failed_writing
    def note_run(self, options: Mapping[str, Any]) -> None:
        """Store the options of a run, unless they are stored already; their values must fit into JSON."""
        if options != self.last_run:
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.RUN, dict(options)))

    @tells_of_failed_writing
    def note_method(self, described: Mapping[str, Any]) -> None:
        """Store the description of a method, unless it is stored already; its values must fit into JSON."""
        if described != self.method:
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.METHOD, dict(described)))

    def _is_new(self, level: int, key: str, value: object) -> bool:
        """Return whether an attribute differs from what the template of the trial wrote; this saves writes."""
        return key != keys.COST or self.problem.continues or value != self.problem.ladder[level].cost
