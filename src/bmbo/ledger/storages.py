"""Opening an Optuna storage so that many processes may share it and none is stopped by a moment's trouble."""

import contextlib
import logging
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._base import BaseJournalSnapshot
from optuna.trial import FrozenTrial
from sqlalchemy import event, exc
from sqlalchemy.engine import make_url

logger = logging.getLogger("bmbo")

Storage = str | Path | BaseStorage | None
"""Where a study is kept: a URL, a path ending in .log or .journal, a storage of Optuna's, or None for memory."""

JOURNAL_SUFFIXES = (".log", ".journal")

BUSY_SECONDS = 60.0
"""How long SQLite waits for a lock: eight workers that write at once wait for fractions of a second."""

OPENING_SECONDS = 15.0
"""How long opening is tried: processes that start together may meet while the first of them makes the tables."""

PATIENCE_SECONDS = 600.0
"""How long a storage may be away in a run: a database server restarts in less."""

T = TypeVar("T")


def open_storage(storage: Storage) -> BaseStorage:
    """The storage, ready for many processes."""
    if storage is None:
        return InMemoryStorage()
    if isinstance(storage, str | Path):
        opened = _opened(str(storage))
    elif isinstance(storage, BaseStorage):
        opened = storage
    else:
        raise TypeError(f"storage must be a URL, a path, an Optuna storage or None, got {storage!r}")
    backend = _inner(opened)
    if isinstance(backend, BaseJournalSnapshot):
        raise ValueError("this journal keeps pickled snapshots, which bmbo never loads; use a database or a file")
    if isinstance(backend, RDBStorage) and backend.engine.dialect.name == "sqlite":
        _make_sqlite_atomic(backend.engine)
    return optuna.storages.get_storage(opened)


def redacted(storage: Storage) -> str:
    """A storage in words fit to be shown: never with a password."""
    if storage is None or isinstance(storage, InMemoryStorage):
        return "memory"
    if isinstance(storage, str | Path):
        try:
            return make_url(str(storage)).render_as_string(hide_password=True)
        except exc.ArgumentError:
            # A path, or a URL with a mistake in it, which may still hold a password.
            text = str(storage)
            return text if "@" not in text else f"***@{text.rpartition('@')[2]}"
    backend = _inner(storage)
    if isinstance(backend, RDBStorage):
        return backend.engine.url.render_as_string(hide_password=True)
    if isinstance(backend, JournalFileBackend):
        return str(_journal_path(backend))
    return type(storage).__name__


def folder_of(storage: Storage) -> Path:
    """Where files that belong to a study are kept: beside a storage that is a file, else the working directory."""
    if isinstance(storage, str | Path):
        if str(storage).endswith(JOURNAL_SUFFIXES):
            return Path(storage).parent
        return _database_folder(make_url(str(storage)))
    backend = None if storage is None else _inner(storage)
    if isinstance(backend, RDBStorage):
        return _database_folder(backend.engine.url)
    if isinstance(backend, JournalFileBackend):
        return _journal_path(backend).parent
    return Path()


@contextlib.contextmanager
def quiet() -> Generator[None, None, None]:
    """Keeps Optuna from announcing what is done in its storage by us."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def patiently(call: Callable[[], T], seconds: float = PATIENCE_SECONDS, opening: bool = False) -> T:
    """What a call to the storage gives, tried again with growing pauses while the storage is locked or away."""
    begun, pause, warned = time.monotonic(), 0.05, False
    while True:
        try:
            return call()
        except (StorageInternalError, exc.SQLAlchemyError, OSError) as error:
            if not _is_passing(error, opening) or time.monotonic() - begun + pause > seconds:
                raise
            if not warned and pause > 1.0:
                logger.warning("the storage does not answer (%s); trying again", _reason(error))
                warned = True
        time.sleep(pause)
        pause = min(2 * pause, 10.0)


def id_of(trial: FrozenTrial) -> int:
    """What Optuna's storages call a trial."""
    return trial._trial_id  # pyright: ignore[reportPrivateUsage] (their interface asks for it and nothing else gives it)


def _is_passing(error: BaseException, opening: bool) -> bool:
    """Whether an error may be gone on the next try; while opening, others may make the same tables and rows."""
    cause: Any = error.__cause__ if isinstance(error, StorageInternalError) else error
    if isinstance(cause, exc.DBAPIError):
        kinds = exc.DBAPIError if opening else exc.OperationalError | exc.InterfaceError
        lasting = any(sign in str(cause.orig) for sign in ("no such", "readonly", "authentication", "does not exist"))
        return cause.connection_invalidated or (isinstance(cause, kinds) and not lasting)
    return isinstance(cause, exc.TimeoutError | OSError)


def _reason(error: BaseException) -> str:
    """The first line of what a database said: the rest is SQL."""
    cause: Any = error.__cause__ if isinstance(error, StorageInternalError) else error
    return str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0]


def _opened(text: str) -> BaseStorage:
    if text.endswith(JOURNAL_SUFFIXES) and "://" not in text:
        try:
            return JournalStorage(JournalFileBackend(text))
        except OSError as error:
            raise ValueError(f"storage {text} cannot be opened: {error.strerror or error}") from None
    try:
        url = make_url(text)
    except exc.ArgumentError:
        raise ValueError(
            f"storage must be a URL such as sqlite:///{Path(redacted(text)).stem or 'study'}.db or a path ending in "
            f".log or .journal, got {redacted(text)!r}"
        ) from None
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError("an SQLite database in memory cannot be shared between threads; for memory give storage=None")
    options = {"connect_args": {"timeout": BUSY_SECONDS}} if url.get_backend_name() == "sqlite" else {}
    if not options:
        # A server may have closed a connection that waited for a long trial.
        options = {"pool_pre_ping": True}
    try:
        return patiently(lambda: RDBStorage(text, engine_kwargs=options), OPENING_SECONDS, opening=True)
    except (ImportError, exc.NoSuchModuleError):
        driver = url.drivername
        raise ValueError(f"storage {redacted(text)} needs the driver of {driver!r}, which is not installed") from None
    except (StorageInternalError, exc.SQLAlchemyError) as error:
        raise ValueError(f"storage {redacted(text)} cannot be opened: {_reason(error)}") from None


def _make_sqlite_atomic(engine: Any) -> None:
    """Lets every transaction take SQLite's lock at its start, and readers read while one writes.

    Optuna reads a trial's state and then writes it. SQLite has no lock on rows, and Python's driver begins the
    transaction only with the write: two processes would both claim the same trial.
    """
    if getattr(engine, "_bmbo_atomic", False):
        return

    def connected(connection: Any, record: object) -> None:
        del record
        connection.isolation_level = None
        # Where the file system does not allow it SQLite keeps its old mode.
        connection.execute("PRAGMA journal_mode=WAL").close()
        connection.execute(f"PRAGMA busy_timeout={int(1000 * BUSY_SECONDS)}").close()

    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    engine._bmbo_atomic = True
    # Connections made before know nothing of it.
    engine.dispose()


def _inner(storage: BaseStorage) -> object:
    """What a storage wraps: Optuna's cache hides a database, its journal a file or a server."""
    inner: object = getattr(storage, "_backend", storage)
    return inner


def _journal_path(backend: JournalFileBackend) -> Path:
    return Path(str(getattr(backend, "_file_path", "")))


def _database_folder(url: Any) -> Path:
    return Path(url.database).parent if url.get_backend_name() == "sqlite" and url.database else Path()
