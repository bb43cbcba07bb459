"""Open an Optuna storage so that many processes can share it, and repeat calls that fail for a short time."""

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
from sqlalchemy import event, exc
from sqlalchemy.engine import make_url

from bmbo.ledger.optuna_private import journal_path, keeps_snapshots, with_cache, wrapped_backend

logger = logging.getLogger("bmbo")

Storage = str | Path | BaseStorage | None
"""Where a study is kept: a URL, a path ending in .log or .journal, an Optuna storage, or None for memory."""

JOURNAL_SUFFIXES = (".log", ".journal")

BUSY_SECONDS = 60.0
"""How long SQLite waits for a lock; eight workers that write at the same time wait for fractions of a second."""

OPENING_SECONDS = 15.0
"""How long opening is tried: of processes that start together, one makes the tables and the others must wait."""

PATIENCE_SECONDS = 600.0
"""How long a storage may be out of reach during a run; a database server restarts in less time."""

T = TypeVar("T")


def open_storage(storage: Storage) -> BaseStorage:
    """Return an Optuna storage that many processes can share.

    Raises:
        TypeError: The argument describes no storage.
        ValueError: The storage cannot be opened, or cannot be shared safely.
    """
    if storage is None:
        return InMemoryStorage()
    if isinstance(storage, str | Path):
        opened = _opened(str(storage))
    elif isinstance(storage, BaseStorage):
        opened = storage
    else:
        raise TypeError(f"storage must be a URL, a path, an Optuna storage or None, got {storage!r}")
    backend = wrapped_backend(opened)
    if keeps_snapshots(backend):
        raise ValueError("this journal keeps pickled snapshots, which bmbo never loads; use a database or a file")
    if isinstance(backend, RDBStorage) and backend.engine.dialect.name == "sqlite":
        _make_sqlite_atomic(backend.engine)
    return with_cache(opened)


def redacted(storage: Storage) -> str:
    """Return a description of a storage for messages, without its password."""
    if storage is None or isinstance(storage, InMemoryStorage):
        return "memory"
    if isinstance(storage, str | Path):
        try:
            return make_url(str(storage)).render_as_string(hide_password=True)
        except exc.ArgumentError:
            # A path, or a URL with a mistake in it, which may still contain a password.
            text = str(storage)
            return text if "@" not in text else f"***@{text.rpartition('@')[2]}"
    backend = wrapped_backend(storage)
    if isinstance(backend, RDBStorage):
        return backend.engine.url.render_as_string(hide_password=True)
    if isinstance(backend, JournalFileBackend):
        return str(journal_path(backend))
    return type(storage).__name__


def folder_of(storage: Storage) -> Path:
    """Return the folder for the files of a study: that of the storage if it is a file, else the working directory."""
    if isinstance(storage, str | Path):
        if str(storage).endswith(JOURNAL_SUFFIXES):
            return Path(storage).parent
        return _database_folder(make_url(str(storage)))
    backend = None if storage is None else wrapped_backend(storage)
    if isinstance(backend, RDBStorage):
        return _database_folder(backend.engine.url)
    if isinstance(backend, JournalFileBackend):
        return journal_path(backend).parent
    return Path()


@contextlib.contextmanager
def quiet_optuna() -> Generator[None, None, None]:
    """Silence Optuna's messages about new studies inside this context; warnings remain."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def with_retries(call: Callable[[], T], seconds: float = PATIENCE_SECONDS, opening: bool = False) -> T:
    """Return the result of a call to the storage, repeated with growing pauses while the storage is not available.

    Args:
        call: calls the storage.
        seconds: after this time the error of the call is raised.
        opening: whether the call opens the storage, so that more kinds of errors may be temporary.
    """
    begun, pause, warned = time.monotonic(), 0.05, False
    while True:
        try:
            return call()
        except (StorageInternalError, exc.SQLAlchemyError, OSError) as error:
            if not _is_temporary(error, opening) or time.monotonic() - begun + pause > seconds:
                raise
            if not warned and pause > 1.0:
                logger.warning("the storage does not answer (%s); trying again", _reason(error))
                warned = True
        time.sleep(pause)
        pause = min(2 * pause, 10.0)


def _is_temporary(error: BaseException, opening: bool) -> bool:
    """Return whether an error may be gone on the next try.

    While a storage is opened this holds for every error of the database, because another process may be making the same
    tables and rows.
    """
    cause: Any = error.__cause__ if isinstance(error, StorageInternalError) else error
    if isinstance(cause, exc.DBAPIError):
        kinds = exc.DBAPIError if opening else exc.OperationalError | exc.InterfaceError
        lasting = any(sign in str(cause.orig) for sign in ("no such", "readonly", "authentication", "does not exist"))
        return cause.connection_invalidated or (isinstance(cause, kinds) and not lasting)
    return isinstance(cause, exc.TimeoutError | OSError)


def _reason(error: BaseException) -> str:
    """Return the first line of a database's error message; the other lines are SQL."""
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
        # A server may have closed a connection that was idle during a long trial.
        options = {"pool_pre_ping": True}
    try:
        return with_retries(lambda: RDBStorage(text, engine_kwargs=options), OPENING_SECONDS, opening=True)
    except (ImportError, exc.NoSuchModuleError):
        driver = url.drivername
        raise ValueError(f"storage {redacted(text)} needs the driver of {driver!r}, which is not installed") from None
    except (StorageInternalError, exc.SQLAlchemyError) as error:
        raise ValueError(f"storage {redacted(text)} cannot be opened: {_reason(error)}") from None


def _make_sqlite_atomic(engine: Any) -> None:
    """Make every transaction take SQLite's lock at its start, and let readers read while a process writes.

    Optuna reads the state of a trial and then writes it. SQLite cannot lock single rows, and Python's driver begins the
    transaction only at the write. Without this function two processes could both claim the same trial.
    """
    if getattr(engine, "_bmbo_atomic", False):
        return

    def connected(connection: Any, record: object) -> None:
        del record
        connection.isolation_level = None
        # On file systems that do not support this mode, SQLite keeps its old mode.
        connection.execute("PRAGMA journal_mode=WAL").close()
        connection.execute(f"PRAGMA busy_timeout={int(1000 * BUSY_SECONDS)}").close()

    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    engine._bmbo_atomic = True
    # Connections that were opened earlier do not have these settings.
    engine.dispose()


def _database_folder(url: Any) -> Path:
    return Path(url.database).parent if url.get_backend_name() == "sqlite" and url.database else Path()
