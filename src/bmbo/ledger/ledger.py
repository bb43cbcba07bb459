"""The ledger of one study: read whole, written in steps that each leave it in order."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, Outcome, Query
from bmbo.ledger import trial_mapping as mapping
from bmbo.ledger.owners import Owner
from bmbo.ledger.planner_lease import Lease
from bmbo.ledger.storages import Storage, open_storage, patiently, quiet, redacted
from bmbo.ledger.study_definition import Definition, difference
from bmbo.ledger.trial_mapping import Entry, Record
from bmbo.problem import Number, Problem

logger = logging.getLogger("bmbo")

DEFINITION, PLAN, RUN = "bmbo:definition", "bmbo:plan", "bmbo:run"

MAX_RETRIES = 2
"""How often a trial is queued again after its worker died: the third death is likely the trial's own doing."""

BIRTH_SECONDS = 5.0
"""How long a study may exist before its definition: whoever made it writes that next."""


@dataclass(frozen=True)
class Run:
    """With what the study was last run: who joins in needs to know."""

    total_cost: float | None = None
    n_trials: int | None = None
    batch_size: int = 1
    asynchronous: bool = False


class Ledger:
    """The record of one study in an Optuna storage; made by `create` or `load`."""

    def __init__(self, storage: BaseStorage, name: str, study_id: int, definition: Definition) -> None:
        self.storage = storage
        self.name = name
        self.problem: Problem = definition.problem
        self.seed = definition.seed
        self._study_id = study_id
        # Finished trials never change: they are translated once.
        self._finished: dict[int, Entry] = {}

    @classmethod
    def create(cls, storage: Storage, name: str | None, definition: Definition, load_if_exists: bool) -> "Ledger":
        """A new study, or with `load_if_exists` the one of that name, which must be about the same problem."""
        # Before anything is written: not every space can be stored.
        mapping.distributions(definition.problem.space)
        opened = open_storage(storage)
        direction = StudyDirection.MAXIMIZE if definition.problem.maximise else StudyDirection.MINIMIZE
        try:
            with quiet():
                study_id = patiently(lambda: opened.create_new_study([direction], name))
        except DuplicatedStudyError:
            if not load_if_exists:
                raise ValueError(
                    f"study {name!r} exists already in {redacted(opened)}: choose another study_name, or continue it "
                    "with load_if_exists=True"
                ) from None
            return cls._joined(opened, str(name), definition)
        patiently(lambda: opened.set_study_user_attr(study_id, DEFINITION, definition.to_json()))
        return cls(opened, patiently(lambda: opened.get_study_name_from_id(study_id)), study_id, definition)

    @classmethod
    def load(cls, storage: Storage, name: str) -> "Ledger":
        """The study of that name."""
        opened = open_storage(storage)
        study_id = _study_id(opened, name)
        stored, _ = _awaited_definition(opened, study_id)
        if stored is None:
            raise ValueError(f"study {name!r} in {redacted(opened)} was not made by bmbo; bmbo.create_study makes one")
        return cls(opened, name, study_id, Definition.from_json(stored))

    @classmethod
    def _joined(cls, opened: BaseStorage, name: str, definition: Definition) -> "Ledger":
        study_id = _study_id(opened, name)
        stored, in_use = _awaited_definition(opened, study_id)
        if stored is None and in_use:
            raise ValueError(f"study {name!r} in {redacted(opened)} was not made by bmbo; choose another study_name")
        if stored is None:
            # Whoever made it died before it could say what it is about.
            patiently(lambda: opened.set_study_user_attr(study_id, DEFINITION, definition.to_json()))
            stored, _ = _awaited_definition(opened, study_id)
        known = Definition.from_json(stored)
        differs = difference(known.problem, definition.problem)
        if differs is not None:
            raise ValueError(
                f"study {name!r} in {redacted(opened)} is another one: {differs}; choose another study_name"
            )
        if known.seed != definition.seed:
            logger.warning("study %r keeps its seed %d; %d is not used", name, known.seed, definition.seed)
        return cls(opened, name, study_id, known)

    def read(self) -> Record:
        """All that is known now."""
        stored = patiently(lambda: self.storage.get_all_trials(self._study_id, deepcopy=False))
        entries = tuple(self._entry(trial) for trial in stored)
        return Record(History(self.problem, tuple(entry.trial for entry in entries)), entries)

    def lease(self, owner: Owner, grace: Number) -> Lease:
        """The right to plan this study."""
        return Lease(self.storage, self.name, owner, grace)

    def plan(self, batch: int, queries: Sequence[Query], permitted: Callable[[], bool]) -> None:
        """Writes a new batch of waiting trials; one that is cut short is completed by `complete_plan`."""
        # Before anything is written: whoever planned while another took over must leave no plan to be completed.
        if not permitted():
            return
        described = [
            {"params": self.problem.space.decode(query.unit), "level": query.level, "tag": dict(query.tag)}
            for query in queries
        ]
        # One trial is written whole or not at all.
        if len(described) > 1:
            plan = {"batch": batch, "queries": described}
            patiently(lambda: self.storage.set_study_user_attr(self._study_id, PLAN, plan))
        self._write(batch, queries, permitted, there=0)

    def complete_plan(self, permitted: Callable[[], bool]) -> None:
        """Writes what is missing of the last batch: its planner may have died over it."""
        plan = patiently(lambda: self.storage.get_study_user_attrs(self._study_id)).get(PLAN)
        if plan is None:
            return
        queries = [
            Query(self.problem.space.encode(query["params"]), query["level"], query["tag"]) for query in plan["queries"]
        ]
        self._write(plan["batch"], queries, permitted, there=None)

    def add(
        self,
        query: Query,
        outcome: Outcome | None = None,
        *,
        owner: str | None = None,
        duplicate_of: int | None = None,
    ) -> int:
        """Writes one trial whole, finished where it has an outcome, running where an owner; gives its number."""
        checked = History(self.problem).asked(query)
        if outcome is not None:
            checked.with_outcome(0, outcome)
        marks = {mapping.OWNER: owner, mapping.DUPLICATE_OF: duplicate_of}
        extra = {key: mark for key, mark in marks.items() if mark is not None}
        trial = mapping.template(self.problem, query, extra, outcome)
        trial_id = patiently(lambda: self.storage.create_new_trial(self._study_id, trial))
        return patiently(lambda: self.storage.get_trial(trial_id)).number

    def claim(self, entry: Entry, owner: str, resume_from: int | None = None) -> bool:
        """Takes a waiting trial; of several that try, one succeeds."""
        try:
            if not patiently(lambda: self.storage.set_trial_state_values(entry.trial_id, TrialState.RUNNING)):
                return False
            self._mark(entry, {mapping.OWNER: owner})
            if resume_from is not None:
                self._mark(entry, {mapping.RESUME_FROM: resume_from})
        except UpdateFinishedTrialError:
            return False
        return True

    def beat(self, entry: Entry, count: int) -> None:
        """A sign of life of a running trial."""
        with contextlib.suppress(UpdateFinishedTrialError):
            self._mark(entry, {mapping.BEAT: count})

    def finish(self, entry: Entry, outcome: Outcome, owner: str | None = None) -> int:
        """Records an outcome and gives the number under which it is kept.

        Whoever comes first finishes the trial. A result that comes after it was really run and paid for too: it is kept
        as one more trial.
        """
        try:
            self._end(entry, outcome)
        except UpdateFinishedTrialError:
            stored = self._stored(entry)
            if owner is not None and stored.owner == owner and stored.trial.value == outcome.value:
                # Our own first try: the storage kept it and lost its answer.
                return entry.trial.number
            return self.add(entry.trial.query, outcome, duplicate_of=entry.trial.number)
        return entry.trial.number

    def requeue(self, entry: Entry, owner: str | None, died: bool = True) -> None:
        """Lets a trial wait again that its owner does not run any more; one whose workers died too often fails.

        Does nothing to a trial that has ended, or has another owner by now.
        """
        stored = self._stored(entry)
        if stored.state != "running" or stored.owner != owner:
            return
        with contextlib.suppress(UpdateFinishedTrialError):
            if died and stored.retries >= MAX_RETRIES:
                cost = 0.0 if self.problem.ladder.measured else self.problem.ladder.costs[entry.trial.query.level]
                self._end(entry, Outcome(None, cost, error=f"its worker died {MAX_RETRIES + 1} times"))
                return
            # Without an owner first: who claims it next must not be taken for the dead one.
            self._mark(entry, {mapping.OWNER: None, mapping.RETRIES: stored.retries + int(died)})
            patiently(lambda: self.storage.set_trial_state_values(entry.trial_id, TrialState.WAITING))

    def _end(self, entry: Entry, outcome: Outcome) -> None:
        """Writes an outcome; the last step, which no one can take twice, makes it count."""
        level, value = entry.trial.query.level, outcome.value
        marks = mapping.marks_of(outcome)
        self._mark(entry, {key: mark for key, mark in marks.items() if self._is_news(level, key, mark)})
        if value is not None and level < self.problem.ladder.top:
            patiently(lambda: self.storage.set_trial_intermediate_value(entry.trial_id, level, value))
        state = mapping.state_of(self.problem, level, outcome)
        values = None if value is None else [value]
        patiently(lambda: self.storage.set_trial_state_values(entry.trial_id, state, values))

    @property
    def last_run(self) -> Run | None:
        """With what the study was last run."""
        stored = patiently(lambda: self.storage.get_study_user_attrs(self._study_id)).get(RUN)
        return None if stored is None else Run(**stored)

    def note_run(self, run: Run) -> None:
        """Keeps with what the study is run."""
        if run != self.last_run:
            patiently(lambda: self.storage.set_study_user_attr(self._study_id, RUN, asdict(run)))

    def _write(self, batch: int, queries: Sequence[Query], permitted: Callable[[], bool], *, there: int | None) -> None:
        """Writes those of a batch that are not there yet, one by one while permitted; None: how many are is unknown."""
        trials = [mapping.template(self.problem, query, {mapping.BATCH: batch}) for query in queries]

        def next_one() -> bool:
            nonlocal there
            # Unknown also after an error: the storage may have kept what it gave no answer to.
            place = sum(entry.batch == batch for entry in self.read().entries) if there is None else there
            there = None
            if place >= len(trials) or not permitted():
                return False
            self.storage.create_new_trial(self._study_id, trials[place])
            there = place + 1
            return True

        while patiently(next_one):
            pass

    def _mark(self, entry: Entry, marks: Mapping[str, Any]) -> None:
        for key, mark in marks.items():
            patiently(lambda key=key, mark=mark: self.storage.set_trial_user_attr(entry.trial_id, key, mark))

    def _is_news(self, level: int, key: str, mark: object) -> bool:
        """Whether a mark says what the trial's template did not: fewer writes."""
        return key != mapping.COST or mark != self.problem.ladder[level].cost

    def _stored(self, entry: Entry) -> Entry:
        return mapping.entry_of(self.problem, patiently(lambda: self.storage.get_trial(entry.trial_id)))

    def _entry(self, stored: FrozenTrial) -> Entry:
        known = self._finished.get(stored.number)
        if known is None:
            known = mapping.entry_of(self.problem, stored)
            if stored.state.is_finished():
                self._finished[stored.number] = known
        return known


def _study_id(storage: BaseStorage, name: str) -> int:
    try:
        return patiently(lambda: storage.get_study_id_from_name(name))
    except KeyError:
        raise ValueError(f"there is no study {name!r} in {redacted(storage)}") from None


def _awaited_definition(storage: BaseStorage, study_id: int) -> tuple[Any, bool]:
    """What a study says it is about, waited for while its maker may be about to, and whether it has trials without."""
    deadline, in_use = time.monotonic() + BIRTH_SECONDS, False
    while (stored := patiently(lambda: storage.get_study_user_attrs(study_id)).get(DEFINITION)) is None:
        # A study of ours is defined before its first trial: with trials, and then still without, it is another's.
        if in_use or time.monotonic() > deadline:
            break
        in_use = patiently(lambda: storage.get_n_trials(study_id)) > 0
        if not in_use:
            time.sleep(0.05)
    return stored, in_use
