"""Read and write the ledger of one study.

Every method writes in small steps, and the ledger is consistent after each step. A process can therefore die at any
moment without damage to the study.
"""

import contextlib
import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from bmbo.history import History, Outcome, Query
from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.allowed_names import check_new_name
from bmbo.ledger.damage import opened_whole, tells_of_damage, tells_of_failed_writing, unreadable
from bmbo.ledger.database_trials import store_of, study_id_of
from bmbo.ledger.kept_record import KeptRecord
from bmbo.ledger.optuna_private import enqueued_params
from bmbo.ledger.outages import with_retries
from bmbo.ledger.owners import Owner
from bmbo.ledger.planner_lease import PlannerLease, delete_terms
from bmbo.ledger.storages import Storage, check_exists, quiet_optuna, redacted
from bmbo.ledger.stored_trials import LedgerEntry, LedgerSnapshot
from bmbo.ledger.study_definition import StudyDefinition, difference
from bmbo.ledger.trial_store import Ending
from bmbo.ledger.writing_once import write_if
from bmbo.problem import Feasible, Number, Problem
from bmbo.problem.number_checks import short

logger = logging.getLogger("bmbo")

MAX_RETRIES = 2
"""How often a trial is queued again after its worker died; a trial that kills three workers is probably at fault."""

ROWS_AT_ONCE = 500
"""How many old results a database takes in one transaction: other processes wait for less than a second."""

BIRTH_SECONDS = 5.0
"""How long to wait for the definition of a study that exists: its maker writes the definition right after it."""


class Ledger:
    """Read and write the record of one study in an Optuna storage; make it with `create` or `load`."""

    def __init__(self, storage: BaseStorage, name: str, study_id: int, definition: StudyDefinition) -> None:
        self.storage = storage
        self.name = name
        self.problem: Problem = definition.problem
        self.seed = definition.seed
        self.key = definition.key
        self._study_id = study_id
        self._definition = definition
        self._trials = store_of(storage, study_id)
        self._record = KeptRecord(self.problem, lambda: store_of(storage, study_id))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a copy is made in another process: it reads the storage anew."""
        return type(self), (self.storage, self.name, self._study_id, self._definition)

    @classmethod
    def create(cls, storage: Storage, name: str | None, definition: StudyDefinition, load_if_exists: bool) -> "Ledger":
        """Return the ledger of a new study, or with `load_if_exists` that of the study with this name.

        Raises:
            ValueError: The name is taken, or the study of this name has another problem.
        """
        if name is not None:
            check_new_name(name)
        definition = replace(definition, key=uuid.uuid4().hex)
        # Checked before anything is written, because not every space can be stored.
        mapping.optuna_distributions(definition.problem.space)
        opened = opened_whole(storage)
        direction = StudyDirection.MAXIMIZE if definition.problem.maximise else StudyDirection.MINIMIZE
        try:
            with quiet_optuna():
                study_id = with_retries(lambda: opened.create_new_study([direction], name))
        except DuplicatedStudyError:
            if not load_if_exists:
                raise ValueError(
                    f"study {name!r} exists already in {redacted(opened)}: choose another study_name, or continue it "
                    "with load_if_exists=True"
                ) from None
            return cls._joined(opened, str(name), definition)
        with_retries(lambda: opened.set_study_user_attr(study_id, keys.DEFINITION, definition.to_json()))
        return cls(opened, with_retries(lambda: opened.get_study_name_from_id(study_id)), study_id, definition)

    @classmethod
    def load(cls, storage: Storage, name: str) -> "Ledger":
        """Return the ledger of the study with this name; raise ValueError if bmbo made no such study."""
        check_exists(storage)
        opened = opened_whole(storage, must_exist=True)
        study_id = _study_id(opened, name)
        stored, _ = _awaited_definition(opened, study_id)
        if stored is None:
            raise ValueError(f"study {name!r} in {redacted(opened)} was not made by bmbo; bmbo.create_study makes one")
        return cls(opened, name, study_id, StudyDefinition.from_json(stored))

    @classmethod
    def _joined(cls, opened: BaseStorage, name: str, definition: StudyDefinition) -> "Ledger":
        study_id = _study_id(opened, name)
        stored, in_use = _awaited_definition(opened, study_id)
        if stored is None and in_use:
            raise ValueError(f"study {name!r} in {redacted(opened)} was not made by bmbo; choose another study_name")
        if stored is None:
            # The process that made the study died before it could write the definition.
            with_retries(lambda: opened.set_study_user_attr(study_id, keys.DEFINITION, definition.to_json()))
            stored, _ = _awaited_definition(opened, study_id)
        known = StudyDefinition.from_json(stored)
        differs = difference(known.problem, definition.problem)
        if differs is not None:
            raise ValueError(
                f"study {name!r} in {redacted(opened)} is another one: {differs}; choose another study_name"
            )
        if known.seed != definition.seed:
            logger.warning("study %r keeps its seed %d; %d is not used", name, known.seed, definition.seed)
        # The record holds no code: the function is the given one.
        return cls(opened, name, study_id, known.with_feasible(definition.problem.feasible))

    def with_feasible(self, feasible: Feasible) -> "Ledger":
        """Return this ledger with the function that says what may be run; raise ValueError if the study has none."""
        if self.problem.feasible is None:
            raise ValueError(f"study {self.name!r} was made without feasible, and keeps to that; leave it out")
        definition = self._definition.with_feasible(feasible)
        return type(self)(self.storage, self.name, self._study_id, definition)

    @tells_of_damage
    def read(self) -> LedgerSnapshot:
        """Return everything that the storage holds now; the same object as before if nothing has changed."""
        return self._record.read()

    def lease(self, owner: Owner, grace: Number) -> PlannerLease:
        """Return the right to plan this study, not taken yet."""
        return PlannerLease(self.storage, self.name, owner, grace)

    @tells_of_failed_writing
    def plan(
        self, batch: int, queries: Sequence[Query], permitted: Callable[[], bool], term: int | None = None
    ) -> None:
        """Write a new batch of waiting trials.

        A database writes all of it or nothing. In other storages, `complete_plan` writes the rest if this process dies
        before the end.

        Args:
            batch: the number of the batch.
            queries: what the trials run.
            permitted: returns whether this process may still plan.
            term: the term of office of this planner. If it has ended, databases and journals write nothing, also if
                the planner stood still after it was permitted.
        """
        # Checked before anything is written: a planner that was replaced meanwhile must leave no plan behind.
        if not permitted():
            return
        if self._trials.writes_batches:
            self._trials.create(self._batch(batch, queries), term)
            return
        described = [{"params": self._params(query), "level": query.level, "tag": dict(query.tag)} for query in queries]
        # A single trial needs no plan, because a storage writes it wholly or not at all.
        if len(described) > 1:
            plan = {"batch": batch, "queries": described}
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.PLAN, plan))
        self._write(batch, queries, permitted, term, stored=0)

    @tells_of_damage
    def complete_plan(self, permitted: Callable[[], bool], term: int | None = None) -> None:
        """Write the missing trials of the last batch, in case its planner died while it wrote them; see `plan`."""
        plan = self._trials.study_attributes().get(keys.PLAN)
        if plan is None:
            return
        queries = [
            Query(self.problem.space.encode(query["params"]), query["level"], query["tag"]) for query in plan["queries"]
        ]
        self._write(plan["batch"], queries, permitted, term, stored=None)

    @tells_of_failed_writing
    def add(
        self,
        query: Query,
        outcome: Outcome | None = None,
        *,
        owner: str | None = None,
        duplicate_of: int | None = None,
        retry_of: int | None = None,
        told_by: str | None = None,
        params: Mapping[str, Any] | None = None,
        resume_from: int | None = None,
    ) -> int:
        """Write one trial in one step and return its number.

        The trial is finished if it has an outcome, running if it has an owner, and waiting otherwise.

        Args:
            query: what the trial runs.
            outcome: its result.
            owner: the process that runs it.
            duplicate_of: the number of the trial that it repeats.
            retry_of: the number of the failed trial that it runs again.
            told_by: the attempt that gave the outcome.
            params: the configuration, if it is to be kept more exactly than the query can say it.
            resume_from: the number of the trial whose checkpoint it continues.

        Raises:
            ValueError: The query or the outcome does not fit the problem.
        """
        checked = History(self.problem).asked(query)
        if outcome is not None:
            checked.with_outcome(0, outcome)
        attributes = {
            keys.OWNER: owner,
            keys.DUPLICATE_OF: duplicate_of,
            keys.RETRY_OF: retry_of,
            keys.TOLD_BY: told_by,
            keys.RESUME_FROM: resume_from,
        }
        extra = {key: value for key, value in attributes.items() if value is not None}
        exact = self._params(query) if params is None else params
        (number,) = self._trials.create([mapping.trial_template(self.problem, query, extra, outcome, exact)])
        return number

    @tells_of_failed_writing
    def add_asked(self, queries: Sequence[Query], resume_from: Sequence[int | None], after: int | None) -> list[int]:
        """Write trials that a user asked for, and return their numbers.

        Args:
            queries: what the trials run.
            resume_from: for each, the number of the trial whose checkpoint it continues.
            after: how many trials the study had when the queries were chosen; if it has more by now, databases write
                nothing, and journals no more. None to write in any case.
        """
        templates: list[FrozenTrial] = []
        for query, source in zip(queries, resume_from, strict=True):
            History(self.problem).asked(query)
            extra = {keys.OWNER: mapping.ASKED} | ({} if source is None else {keys.RESUME_FROM: source})
            templates.append(mapping.trial_template(self.problem, query, extra, params=self._params(query)))
        return self._trials.create(templates, after=after)

    @tells_of_failed_writing
    def add_rows(self, rows: Sequence[tuple[str, Query, Outcome]]) -> list[int]:
        """Write old results that are not there yet, and return the numbers of the trials that hold them.

        Args:
            rows: a key of its own, the query and the outcome of each. A row whose key is there already is not written,
                unless its trial was dropped.
        """
        entries = self.read().entries
        known = {entry.imported: entry.trial.number for entry in entries if entry.imported and entry.state != "dropped"}
        missing = [row for row in rows if row[0] not in known]
        for first in range(0, len(missing), ROWS_AT_ONCE):
            some = missing[first : first + ROWS_AT_ONCE]
            templates = [
                mapping.trial_template(self.problem, query, {keys.IMPORTED: key}, outcome)
                for key, query, outcome in some
            ]
            numbers = self._trials.create(templates)
            known.update(zip((key for key, _, _ in some), numbers, strict=True))
        return [known[key] for key, _, _ in rows]

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
        attempt = mapping.attempt_of(owner or f"{mapping.ASKED}|{uuid.uuid4().hex}", entry)
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
        elif entry.state == "running" and entry.owner == mapping.ASKED:
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
        key = mapping.mark_key(name, number)
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
        step = level if level < self.problem.ladder.top else None
        state = mapping.optuna_state(self.problem, level, outcome)
        system = mapping.system_attributes(outcome, self.problem)
        self._trials.end(entry.trial_id, Ending(state, outcome.value, step, new, system))

    @property
    @tells_of_damage
    def last_run(self) -> Mapping[str, Any] | None:
        """Return the stored options of the last run by any process, or None before the first run."""
        return self._described(keys.RUN, "record of the last run")

    @tells_of_failed_writing
    def note_run(self, options: Mapping[str, Any]) -> None:
        """Store the options of a run, unless they are stored already; their values must fit into JSON."""
        if options != self.last_run:
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.RUN, dict(options)))

    @property
    @tells_of_damage
    def method(self) -> Mapping[str, Any] | None:
        """Return the stored description of the study's method, or None if none was stored."""
        return self._described(keys.METHOD, "method")

    @tells_of_failed_writing
    def note_method(self, described: Mapping[str, Any]) -> None:
        """Store the description of a method, unless it is stored already; its values must fit into JSON."""
        if described != self.method:
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.METHOD, dict(described)))

    def _described(self, key: str, what: str) -> Mapping[str, Any] | None:
        """Return a table among the attributes of the study, or None; raise ValueError if it is something else."""
        stored = self._trials.study_attributes().get(key)
        if stored is not None and not isinstance(stored, Mapping):
            raise ValueError(f"the {what} of the study was changed by something else than bmbo: {short(stored)}")
        return cast(Mapping[str, Any] | None, stored)

    def _write(
        self,
        batch: int,
        queries: Sequence[Query],
        permitted: Callable[[], bool],
        term: int | None,
        *,
        stored: int | None,
    ) -> None:
        """Write the trials of a batch that are not stored yet, one by one, while this process may plan.

        Args:
            batch: the number of the batch.
            queries: all queries of the batch.
            permitted: returns whether this process may still plan.
            term: of this planner.
            stored: how many trials of the batch are stored already; None if this must be counted.
        """
        trials = self._batch(batch, queries)

        def next_one() -> bool:
            nonlocal stored
            # Unknown also after an error, because the storage may have written the trial before it failed.
            place = sum(entry.batch == batch for entry in self.read().entries) if stored is None else stored
            stored = None
            if place >= len(trials) or not permitted():
                return False
            written = write_if(self.storage, self._study_id, trials[place], term, None)
            stored = place + 1
            return written is not None

        while with_retries(next_one):
            pass

    def _batch(self, batch: int, queries: Sequence[Query]) -> list[FrozenTrial]:
        extra = {keys.BATCH: batch}
        return [mapping.trial_template(self.problem, each, extra, params=self._params(each)) for each in queries]

    def _is_new(self, level: int, key: str, value: object) -> bool:
        """Return whether an attribute differs from what the template of the trial wrote; this saves writes."""
        return key != keys.COST or self.problem.continues or value != self.problem.ladder[level].cost

    def _params(self, query: Query) -> Mapping[str, Any]:
        """Return the configuration of a query; where training continues, to the last digit that of a known trial.

        A point that is decoded and encoded again may differ in its last digits, and would not be the same point then.
        """
        known = self.read().entries if self.problem.continues else ()
        same = next((entry for entry in known if entry.trial.query.unit == query.unit), None)
        if same is None:
            return self.problem.space.decode(query.unit)
        stored = with_retries(lambda: self.storage.get_trial(same.trial_id))
        return stored.params or enqueued_params(stored)

    def _stored(self, entry: LedgerEntry) -> LedgerEntry:
        return mapping.entry_from_trial(self.problem, self._trials.trial(entry.trial_id))


def _study_id(storage: BaseStorage, name: str) -> int:
    try:
        return study_id_of(storage, name)
    except KeyError:
        raise ValueError(f"there is no study {name!r} in {redacted(storage)}") from None


def _awaited_definition(storage: BaseStorage, study_id: int) -> tuple[Any, bool]:
    """Return the stored definition of a study, or None, and whether the study has trials but no definition.

    A new study has no definition for a moment, so this function waits a short time for it.
    """
    deadline, in_use = time.monotonic() + BIRTH_SECONDS, False

    def definition() -> Any:
        try:
            return with_retries(lambda: storage.get_study_user_attrs(study_id)).get(keys.DEFINITION)
        except (json.JSONDecodeError, AttributeError, TypeError) as error:
            raise unreadable(f"a study in {redacted(storage)}", error) from error

    while (stored := definition()) is None:
        # bmbo writes the definition before the first trial. A study with trials that has still no definition on a
        # second look was not made by bmbo.
        if in_use or time.monotonic() > deadline:
            break
        in_use = with_retries(lambda: storage.get_n_trials(study_id)) > 0
        if not in_use:
            time.sleep(0.05)
    return stored, in_use
