"""Hold every use of names that Optuna does not document: no other file of the package uses any.

pyproject.toml bounds Optuna's version because of these names. Each function says why it is needed, and what to do when
a new version of Optuna no longer has the name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna import Study
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._base import BaseJournalSnapshot
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import MetaData, Table

from bmbo.ledger.attribute_keys import WRITE_KEY

ENQUEUED = "fixed_params"
"""System attribute of a trial that `optuna.Study.enqueue_trial` queued: see `enqueued_params`."""

VIOLATIONS = "constraints"
"""System attribute of a trial: how far each constraint is exceeded, 0 or less if it is kept.

Samplers of Optuna, its `best_trial` and its dashboard read it; its documentation names only the function that writes
it. Without the key, only bmbo knows which trials are feasible."""


OBJECTIVE_NAMES = "study:metric_names"
"""System attribute of a study: the names of its objectives.

`optuna.Study.set_metric_names` writes it, for which a study of Optuna would have to be made; figures and the dashboard
read it. Without the key, they show the numbers of the objectives."""


def trial_id(trial: FrozenTrial) -> int:
    """Return the id by which Optuna's storages know a trial.

    Every method of a storage that changes a trial asks for this id, and no public name returns it. Without it, find the
    id by `BaseStorage.get_trial_id_from_study_id_trial_number`, which costs one more read.
    """
    return trial._trial_id  # pyright: ignore[reportPrivateUsage] (see the docstring)


def with_cache(storage: BaseStorage) -> BaseStorage:
    """Return a storage as `optuna.create_study` uses it: a database behind a cache of its finished trials.

    Optuna exports `get_storage` but calls it internal. Without it, return the storage itself: only reading is slower.
    """
    return get_storage(storage)


def wrapped_backend(storage: BaseStorage) -> object:
    """Return what a storage wraps, or the storage itself: the cache hides a database, the journal a file or a server.

    bmbo must see the database to make SQLite transactions atomic and to show its address. Without the name, remember
    in `open_storage` what was opened, and do not accept storages that a user has wrapped.
    """
    backend: object = getattr(storage, "_backend", storage)
    return backend


def journal_trials(storage: JournalStorage, study_id: int) -> list[FrozenTrial]:
    """Return the trials of a study in a journal as they are now, inside a write of the journal.

    The public methods wait for the lock of the thread, which the write holds. Without the names, write without a
    condition: a planner that stands still between its last look and its write may then plan one trial too many.
    """
    storage._sync_with_backend()  # pyright: ignore[reportPrivateUsage] (see the docstring)
    known = storage._replay_result  # pyright: ignore[reportPrivateUsage] (as above)
    return known.get_all_trials(study_id, None)


def journal_state(storage: JournalStorage, trial: int) -> TrialState:
    """Return the state of a trial of any study in a journal as it is now, inside a write of the journal.

    As for `journal_trials`.
    """
    storage._sync_with_backend()  # pyright: ignore[reportPrivateUsage] (see the docstring)
    return storage._replay_result.get_trial(trial).state  # pyright: ignore[reportPrivateUsage] (as above)


def keeps_snapshots(backend: object) -> bool:
    """Return whether the backend of a journal stores pickled snapshots, which can run code when they are loaded.

    The base class of such backends is not exported. Without it, check for a method called `load_snapshot`.
    """
    return isinstance(backend, BaseJournalSnapshot)


def journal_path(backend: JournalFileBackend) -> Path:
    """Return the path of a journal file, for messages and for the folder of checkpoints.

    Optuna keeps the path that it was given but has no public name for it. Without the name, the result is the working
    directory.
    """
    return Path(str(getattr(backend, "_file_path", "")))


def enqueued_params(trial: FrozenTrial) -> Mapping[str, Any]:
    """Return the parameters of a trial that was queued by `optuna.Study.enqueue_trial`, empty for other trials.

    Optuna stores them under a system attribute until the trial runs, and does not document its key. Without the key,
    such trials can be read only after they have run.
    """
    params: Mapping[str, Any] = trial.system_attrs.get(ENQUEUED, {})
    return params


def set_system_attribute(study: Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Write an attribute of a running trial that every process of the study sees, and that no user looks at.

    Optuna's own samplers do the same; a `FrozenTrial` has no public way to it. Without the name, write a user
    attribute of the trial by way of the objective.
    """
    study._storage.set_trial_system_attr(trial_id(trial), key, value)  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True)
class OptunaTables:
    """Hold the tables of Optuna's databases that the ledger reads and writes itself."""

    studies: Table
    study_attributes: Table
    trials: Table
    params: Table
    attributes: Table
    system_attributes: Table
    values: Table
    intermediate_values: Table

    @property
    def read_columns(self) -> Mapping[str, tuple[str, ...]]:
        """Return the columns that the ledger reads of a table, by its name; the first is the trial's id."""
        return {
            self.params.name: ("trial_id", "param_name", "param_value", "distribution_json"),
            self.attributes.name: ("trial_id", "key", "value_json"),
            self.system_attributes.name: ("trial_id", "key", "value_json"),
            self.values.name: ("trial_id", "value", "value_type", "objective"),
        }


def optuna_tables() -> OptunaTables:
    """Return the tables of Optuna's databases.

    Optuna documents no table. Its methods commit each attribute and load each row as an object, which takes many times
    as long. Without the names, use `AnyStorage` of `trial_store.py` for databases too: it is slower, and the same
    otherwise. A new version of Optuna that adds a column that must not be empty fails at the first write.
    """
    table = table_definitions().tables
    return OptunaTables(
        table["studies"],
        table["study_user_attributes"],
        table["trials"],
        table["trial_params"],
        table["trial_user_attributes"],
        table["trial_system_attributes"],
        table["trial_values"],
        table["trial_intermediate_values"],
    )


def table_definitions() -> MetaData:
    """Return the tables and indexes that Optuna keeps in a database.

    Optuna makes them in several transactions, and a process may be killed in between. Without the name, leave the
    tables to Optuna.
    """
    from optuna.storages._rdb import models  # noqa: PLC0415 (it takes a while to load, and memory does not need it)

    definitions: MetaData = models.BaseModel.metadata
    return definitions


def write_each_trial_once(storage: RDBStorage) -> None:
    """Let a database write a trial with our key once, however often the call is repeated.

    The answer to a COMMIT may be lost while the server still works on it. Only the transaction that holds the lock of
    the study can see whether the first try has been written, and Optuna has no public way into it. Without the name,
    trials may be doubled when a connection is cut.
    """
    prepared: Any = _PreparedOnce(storage)
    storage._get_prepared_new_trial = prepared  # pyright: ignore[reportPrivateUsage] (see the docstring)


class _PreparedOnce:
    """Prepare a trial for the first call with its key, and find it for the next ones."""

    def __init__(self, storage: RDBStorage) -> None:
        self._storage = storage
        self._tried: set[str] = set()

    def __call__(self, study_id: int, template: FrozenTrial | None, session: Any) -> Any:
        from optuna.storages._rdb import models  # noqa: PLC0415 (as above)

        key = None if template is None else template.system_attrs.get(WRITE_KEY)
        if key is not None and key in self._tried:
            found = (
                session.query(models.TrialModel)
                .join(models.TrialSystemAttributeModel)
                .filter(models.TrialModel.study_id == study_id)
                .filter(models.TrialSystemAttributeModel.key == WRITE_KEY)
                .filter(models.TrialSystemAttributeModel.value_json == json.dumps(key))
                .first()
            )
            if found is not None:
                return found
        if key is not None:
            self._tried.add(key)
        optunas: Any = RDBStorage._get_prepared_new_trial  # pyright: ignore[reportPrivateUsage] (as above)
        return optunas(self._storage, study_id, template, session)
