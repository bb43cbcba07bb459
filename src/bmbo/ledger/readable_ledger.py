"""Read the record of a study, its last run and its method."""

from collections.abc import Mapping
from typing import Any, cast

from optuna.storages import BaseStorage

from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.damage import tells_of_damage
from bmbo.ledger.database_trials import store_of
from bmbo.ledger.kept_record import KeptRecord
from bmbo.ledger.ledger_entries import LedgerEntry, LedgerSnapshot
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Problem
from bmbo.problem.number_checks import short


class ReadableLedger:
    """Read the record of one study in an Optuna storage."""

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
