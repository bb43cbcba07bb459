"""Make or find the ledger of a study, and read it."""

import json
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar, cast

from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.allowed_names import check_new_name
from bmbo.ledger.damage import opened_whole, tells_of_damage, unreadable
from bmbo.ledger.database_trials import store_of, study_id_of
from bmbo.ledger.kept_record import KeptRecord
from bmbo.ledger.ledger_entries import LedgerEntry, LedgerSnapshot
from bmbo.ledger.outages import with_retries
from bmbo.ledger.storages import Storage, check_exists, quiet_optuna, redacted
from bmbo.ledger.study_definition import StudyDefinition, difference
from bmbo.problem import Feasible, Problem
from bmbo.problem.number_checks import short

logger = logging.getLogger("bmbo")

BIRTH_SECONDS = 5.0
"""How long to wait for the definition of a study that exists: its maker writes the definition right after it."""


L = TypeVar("L", bound="ReadableLedger")


class ReadableLedger:
    """Read the record of one study in an Optuna storage; make it with `create` or `load`."""

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
    def create(cls, storage: Storage, name: str | None, definition: StudyDefinition, load_if_exists: bool) -> Self:
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
    def load(cls, storage: Storage, name: str) -> Self:
        """Return the ledger of the study with this name; raise ValueError if bmbo made no such study."""
        check_exists(storage)
        opened = opened_whole(storage, must_exist=True)
        study_id = _study_id(opened, name)
        stored, _ = _awaited_definition(opened, study_id)
        if stored is None:
            raise ValueError(f"study {name!r} in {redacted(opened)} was not made by bmbo; bmbo.create_study makes one")
        return cls(opened, name, study_id, StudyDefinition.from_json(stored))

    @classmethod
    def _joined(cls, opened: BaseStorage, name: str, definition: StudyDefinition) -> Self:
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

    def with_feasible(self, feasible: Feasible) -> Self:
        """Return this ledger with the function that says what may be run; raise ValueError if the study has none."""
        if self.problem.feasible is None:
            raise ValueError(f"study {self.name!r} was made without feasible, and keeps to that; leave it out")
        definition = self._definition.with_feasible(feasible)
        return type(self)(self.storage, self.name, self._study_id, definition)

    @tells_of_damage
    def read(self) -> LedgerSnapshot:
        """Return everything that the storage holds now; the same object as before if nothing has changed."""
        return self._record.read()

    @property
    @tells_of_damage
    def last_run(self) -> Mapping[str, Any] | None:
        """Return the stored options of the last run by any process, or None before the first run."""
        return self._described(keys.RUN, "record of the last run")

    @property
    @tells_of_damage
    def method(self) -> Mapping[str, Any] | None:
        """Return the stored description of the study's method, or None if none was stored."""
        return self._described(keys.METHOD, "method")

    def _described(self, key: str, what: str) -> Mapping[str, Any] | None:
        """Return a table among the attributes of the study, or None; raise ValueError if it is something else."""
        stored = self._trials.study_attributes().get(key)
        if stored is not None and not isinstance(stored, Mapping):
            raise ValueError(f"the {what} of the study was changed by something else than bmbo: {short(stored)}")
        return cast(Mapping[str, Any] | None, stored)

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
