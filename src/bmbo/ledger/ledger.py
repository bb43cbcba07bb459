"""Read and write the ledger of one study.

Every method writes in small steps, and the ledger is consistent after each step. A process can therefore die at any
moment without damage to the study.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, Outcome, Query
from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.owners import Owner
from bmbo.ledger.planner_lease import PlannerLease, delete_terms
from bmbo.ledger.storages import Storage, open_storage, quiet_optuna, redacted, with_retries
from bmbo.ledger.stored_trials import LedgerEntry, LedgerSnapshot
from bmbo.ledger.study_definition import StudyDefinition, difference
from bmbo.problem import Number, Problem

logger = logging.getLogger("bmbo")

MAX_RETRIES = 2
"""How often a trial is queued again after its worker died; a trial that kills three workers is probably at fault."""

BIRTH_SECONDS = 5.0
"""How long to wait for the definition of a study that exists: its maker writes the definition right after it."""


class Ledger:
    """Read and write the record of one study in an Optuna storage; make it with `create` or `load`."""

    def __init__(self, storage: BaseStorage, name: str, study_id: int, definition: StudyDefinition) -> None:
        self.storage = storage
        self.name = name
        self.problem: Problem = definition.problem
        self.seed = definition.seed
        self._study_id = study_id
        # Finished trials never change, so they are converted only once.
        self._finished: dict[int, LedgerEntry] = {}

    @classmethod
    def create(cls, storage: Storage, name: str | None, definition: StudyDefinition, load_if_exists: bool) -> "Ledger":
        """Return the ledger of a new study, or with `load_if_exists` that of the study with this name.

        Raises:
            ValueError: The name is taken, or the study of this name has another problem.
        """
        # Checked before anything is written, because not every space can be stored.
        mapping.optuna_distributions(definition.problem.space)
        opened = open_storage(storage)
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
        opened = open_storage(storage)
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
        return cls(opened, name, study_id, known)

    def read(self) -> LedgerSnapshot:
        """Return everything that the storage holds now."""
        attributes = with_retries(lambda: self.storage.get_study_user_attrs(self._study_id))
        stored = with_retries(lambda: self.storage.get_all_trials(self._study_id, deepcopy=False))
        marks = mapping.Marks.of(attributes)
        entries = tuple(marks.put_on(self._entry(trial)) for trial in stored)
        return LedgerSnapshot(History(self.problem, tuple(entry.trial for entry in entries)), entries)

    def lease(self, owner: Owner, grace: Number) -> PlannerLease:
        """Return the right to plan this study, not taken yet."""
        return PlannerLease(self.storage, self.name, owner, grace)

    def plan(self, batch: int, queries: Sequence[Query], permitted: Callable[[], bool]) -> None:
        """Write a new batch of waiting trials.

        If this process dies before the end, `complete_plan` writes the rest.

        Args:
            batch: the number of the batch.
            queries: what the trials run.
            permitted: returns whether this process may still plan.
        """
        # Checked before anything is written: a planner that was replaced meanwhile must leave no plan behind.
        if not permitted():
            return
        described = [
            {"params": self.problem.space.decode(query.unit), "level": query.level, "tag": dict(query.tag)}
            for query in queries
        ]
        # A single trial needs no plan, because a storage writes it wholly or not at all.
        if len(described) > 1:
            plan = {"batch": batch, "queries": described}
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.PLAN, plan))
        self._write(batch, queries, permitted, stored=0)

    def complete_plan(self, permitted: Callable[[], bool]) -> None:
        """Write the missing trials of the last batch, in case its planner died while it wrote them."""
        plan = with_retries(lambda: self.storage.get_study_user_attrs(self._study_id)).get(keys.PLAN)
        if plan is None:
            return
        queries = [
            Query(self.problem.space.encode(query["params"]), query["level"], query["tag"]) for query in plan["queries"]
        ]
        self._write(plan["batch"], queries, permitted, stored=None)

    def add(
        self,
        query: Query,
        outcome: Outcome | None = None,
        *,
        owner: str | None = None,
        duplicate_of: int | None = None,
        retry_of: int | None = None,
    ) -> int:
        """Write one trial in one step and return its number.

        The trial is finished if it has an outcome, running if it has an owner, and waiting otherwise.

        Args:
            query: what the trial runs.
            outcome: its result.
            owner: the process that runs it.
            duplicate_of: the number of the trial that it repeats.
            retry_of: the number of the failed trial that it runs again.

        Raises:
            ValueError: The query or the outcome does not fit the problem.
        """
        checked = History(self.problem).asked(query)
        if outcome is not None:
            checked.with_outcome(0, outcome)
        attributes = {keys.OWNER: owner, keys.DUPLICATE_OF: duplicate_of, keys.RETRY_OF: retry_of}
        extra = {key: value for key, value in attributes.items() if value is not None}
        trial = mapping.trial_template(self.problem, query, extra, outcome)
        trial_id = with_retries(lambda: self.storage.create_new_trial(self._study_id, trial))
        return with_retries(lambda: self.storage.get_trial(trial_id)).number

    def claim(self, entry: LedgerEntry, owner: str, resume_from: int | None = None) -> bool:
        """Take a waiting trial and return whether it worked; of several processes that try, only one succeeds."""
        try:
            if not with_retries(lambda: self.storage.set_trial_state_values(entry.trial_id, TrialState.RUNNING)):
                return False
            self._set(entry, {keys.OWNER: owner})
            if resume_from is not None:
                self._set(entry, {keys.RESUME_FROM: resume_from})
        except UpdateFinishedTrialError:
            return False
        return True

    def beat(self, entry: LedgerEntry, count: int) -> None:
        """Write a sign of life for a running trial; do nothing if the trial has ended."""
        with contextlib.suppress(UpdateFinishedTrialError):
            self._set(entry, {keys.BEAT: count})

    def finish(self, entry: LedgerEntry, outcome: Outcome, owner: str | None = None) -> int:
        """Write an outcome and return the number of the trial that holds it.

        The first outcome finishes the trial. A later outcome is stored as one more trial, because it was run and paid
        for too.
        """
        try:
            self._end(entry, outcome)
        except UpdateFinishedTrialError:
            stored = self._stored(entry)
            if owner is not None and stored.owner == owner and stored.trial.value == outcome.value:
                # An earlier try of this call was stored, but the storage's answer was lost.
                return entry.trial.number
            return self.add(entry.trial.query, outcome, duplicate_of=entry.trial.number)
        return entry.trial.number

    def requeue(self, entry: LedgerEntry, owner: str | None, died: bool = True) -> None:
        """Put a running trial back into the queue, or let it fail if its workers died too often.

        Nothing is done to a trial that has ended, or that has another owner by now.

        Args:
            entry: the trial.
            owner: the process that ran it.
            died: whether that process died; otherwise it gave the trial back, and this does not count as a retry.
        """
        stored = self._stored(entry)
        if stored.state != "running" or stored.owner != owner:
            return
        with contextlib.suppress(UpdateFinishedTrialError):
            if died and stored.retries >= MAX_RETRIES:
                cost = 0.0 if self.problem.ladder.measured else self.problem.ladder.costs[entry.trial.query.level]
                self._end(entry, Outcome(None, cost, error=f"its worker died {MAX_RETRIES + 1} times"))
                return
            # The owner is removed first, so that the next process that claims the trial is not taken for dead.
            self._set(entry, {keys.OWNER: None, keys.RETRIES: stored.retries + int(died)})
            with_retries(lambda: self.storage.set_trial_state_values(entry.trial_id, TrialState.WAITING))

    def drop(self, entry: LedgerEntry) -> bool:
        """Mark a trial as dropped, so that nothing counts it as known; return False if it is running.

        A trial that waits is taken out of the queue first: it fails without cost, and its place is given back.
        """
        if entry.state == "waiting":
            owner = Owner.new()
            try:
                if not self.claim(entry, owner.text):
                    return False
                self._end(entry, Outcome(None, 0.0, error="it was dropped before it ran"))
            finally:
                owner.leave()
            self.refund(entry)
        elif entry.trial.outcome is None:
            return False
        self._mark(keys.DROPPED, entry)
        return True

    def refund(self, entry: LedgerEntry) -> None:
        """Give the cost of a finished trial back, and its place among the trials that limits count."""
        self._mark(keys.REFUNDED, entry)

    def delete(self) -> None:
        """Delete the study and the record of who planned it."""
        # No such study: another process deleted it, or an earlier try of this call did.
        with contextlib.suppress(KeyError):
            with_retries(lambda: self.storage.delete_study(self._study_id))
        delete_terms(self.storage, self.name)

    def _mark(self, name: str, entry: LedgerEntry) -> None:
        key = mapping.mark_key(name, entry.trial.number)
        with_retries(lambda: self.storage.set_study_user_attr(self._study_id, key, True))

    def _end(self, entry: LedgerEntry, outcome: Outcome) -> None:
        """Write an outcome; it counts with the last step, which the storage allows only once for each trial."""
        level, value = entry.trial.query.level, outcome.value
        attributes = mapping.outcome_attributes(outcome)
        self._set(entry, {key: new for key, new in attributes.items() if self._is_new(level, key, new)})
        if value is not None and level < self.problem.ladder.top:
            with_retries(lambda: self.storage.set_trial_intermediate_value(entry.trial_id, level, value))
        state = mapping.optuna_state(self.problem, level, outcome)
        values = None if value is None else [value]
        with_retries(lambda: self.storage.set_trial_state_values(entry.trial_id, state, values))

    @property
    def last_run(self) -> Mapping[str, Any] | None:
        """Return the stored options of the last run by any process, or None before the first run."""
        return with_retries(lambda: self.storage.get_study_user_attrs(self._study_id)).get(keys.RUN)

    def note_run(self, options: Mapping[str, Any]) -> None:
        """Store the options of a run, unless they are stored already; their values must fit into JSON."""
        if options != self.last_run:
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.RUN, dict(options)))

    def _write(
        self, batch: int, queries: Sequence[Query], permitted: Callable[[], bool], *, stored: int | None
    ) -> None:
        """Write the trials of a batch that are not stored yet, one by one, while this process may plan.

        Args:
            batch: the number of the batch.
            queries: all queries of the batch.
            permitted: returns whether this process may still plan.
            stored: how many trials of the batch are stored already; None if this must be counted.
        """
        trials = [mapping.trial_template(self.problem, query, {keys.BATCH: batch}) for query in queries]

        def next_one() -> bool:
            nonlocal stored
            # Unknown also after an error, because the storage may have written the trial before it failed.
            place = sum(entry.batch == batch for entry in self.read().entries) if stored is None else stored
            stored = None
            if place >= len(trials) or not permitted():
                return False
            self.storage.create_new_trial(self._study_id, trials[place])
            stored = place + 1
            return True

        while with_retries(next_one):
            pass

    def _set(self, entry: LedgerEntry, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            with_retries(lambda key=key, value=value: self.storage.set_trial_user_attr(entry.trial_id, key, value))

    def _is_new(self, level: int, key: str, value: object) -> bool:
        """Return whether an attribute differs from what the template of the trial wrote; this saves writes."""
        return key != keys.COST or value != self.problem.ladder[level].cost

    def _stored(self, entry: LedgerEntry) -> LedgerEntry:
        return mapping.entry_from_trial(self.problem, with_retries(lambda: self.storage.get_trial(entry.trial_id)))

    def _entry(self, stored: FrozenTrial) -> LedgerEntry:
        known = self._finished.get(stored.number)
        if known is None:
            known = mapping.entry_from_trial(self.problem, stored)
            if stored.state.is_finished():
                self._finished[stored.number] = known
        return known


def _study_id(storage: BaseStorage, name: str) -> int:
    try:
        return with_retries(lambda: storage.get_study_id_from_name(name))
    except KeyError:
        raise ValueError(f"there is no study {name!r} in {redacted(storage)}") from None


def _awaited_definition(storage: BaseStorage, study_id: int) -> tuple[Any, bool]:
    """Return the stored definition of a study, or None, and whether the study has trials but no definition.

    A new study has no definition for a moment, so this function waits a short time for it.
    """
    deadline, in_use = time.monotonic() + BIRTH_SECONDS, False
    while (stored := with_retries(lambda: storage.get_study_user_attrs(study_id)).get(keys.DEFINITION)) is None:
        # bmbo writes the definition before the first trial. A study with trials that has still no definition on a
        # second look was not made by bmbo.
        if in_use or time.monotonic() > deadline:
            break
        in_use = with_retries(lambda: storage.get_n_trials(study_id)) > 0
        if not in_use:
            time.sleep(0.05)
    return stored, in_use
