"""Hold every use of names that Optuna does not document: no other file of the package uses any.

pyproject.toml bounds Optuna's version because of these names. Each function says why it is needed, and what to do when
a new version of Optuna no longer has the name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optuna import Study
from optuna.storages import BaseStorage, get_storage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._base import BaseJournalSnapshot
from optuna.trial import FrozenTrial


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
    params: Mapping[str, Any] = trial.system_attrs.get("fixed_params", {})
    return params


def set_system_attribute(study: Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Write an attribute of a running trial that every process of the study sees, and that no user looks at.

    Optuna's own samplers do the same; a `FrozenTrial` has no public way to it. Without the name, write a user
    attribute of the trial by way of the objective.
    """
    study._storage.set_trial_system_attr(trial_id(trial), key, value)  # pyright: ignore[reportPrivateUsage]
