"""Open an Optuna storage so that many processes can share it."""

import contextlib
import logging
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy import exc
from sqlalchemy.engine import URL, make_url

from bmbo.ledger.full_disk import naming_full_disks
from bmbo.ledger.mended_journal import MendedJournal
from bmbo.ledger.optuna_private import (
    journal_path,
    keeps_snapshots,
    with_cache,
    wrapped_backend,
    write_each_trial_once,
)
from bmbo.ledger.outages import reason, report_outages, with_retries
from bmbo.ledger.passwords import has_password, shown_url
from bmbo.ledger.sqlite_files import BUSY_SECONDS, complete_tables, database_file, make_atomic, make_tables

Storage = str | Path | BaseStorage | None
"""Where a study is kept: a URL, a path ending in .log or .journal, an Optuna storage, or None for memory."""

ADVICE = "; in a password write %40 for @, %2F for /, %3A for : and %3F for ?"

JOURNAL_SUFFIXES = (".log", ".journal")

OPENING_SECONDS = 15.0
"""How long opening is tried: of processes that start together, one makes the tables and the others must wait."""

SERVER_SECONDS = 120.0
"""The same for a server, which may be restarting while workers start, and for a file that another process locks."""

MADE_BY_OTHERS = ("locked", "UNIQUE constraint failed")
"""Parts of messages of SQLite while another process writes to a file, or has just made what this one would make."""

CONNECT_SECONDS = 5
"""How long one try to reach a server of PostgreSQL lasts."""

DEAD_SECONDS = 30
"""After how long a connection counts as cut whose other end acknowledges nothing."""


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
    if isinstance(backend, RDBStorage):
        _prepare(backend)
    return with_cache(opened)


def check_exists(storage: Storage) -> None:
    """Raise ValueError if a storage is a file that does not exist, because opening it would make it."""
    if not isinstance(storage, str | Path):
        return
    path = str(storage)
    if "://" in path:
        url = parsed_url(path)
        if url.get_backend_name() != "sqlite" or url.host or not url.database or url.database.startswith("file:"):
            return
        path = url.database
    elif not path.endswith(JOURNAL_SUFFIXES):
        return
    if not Path(path).exists():
        raise ValueError(f"there is no storage {redacted(storage)}; is this the right folder?")


def redacted(storage: Storage) -> str:
    """Return a description of a storage for messages, without its password."""
    if storage is None or isinstance(storage, InMemoryStorage):
        return "memory"
    if isinstance(storage, str | Path):
        return shown_url(str(storage))
    backend = wrapped_backend(storage)
    if isinstance(backend, RDBStorage):
        return shown_url(backend.engine.url.render_as_string(hide_password=False))
    if isinstance(backend, JournalFileBackend):
        return str(journal_path(backend))
    return type(storage).__name__


def parsed_url(text: str) -> URL:
    """Return the URL of a storage; raise ValueError, without its password, if the text is no URL."""
    try:
        return make_url(text)
    # ValueError: the port is no number.
    except (exc.ArgumentError, ValueError):
        shown = redacted(text)
        name = "study" if "://" in text else Path(shown).stem or "study"
        raise ValueError(
            f"storage must be a URL such as sqlite:///{name}.db or a path ending in .log or .journal, got {shown!r}"
            f"{ADVICE if has_password(text) else ''}"
        ) from None


def folder_of(storage: Storage) -> Path:
    """Return the folder for the files of a study: that of the storage if it is a file, else the working directory."""
    if isinstance(storage, str | Path):
        if str(storage).endswith(JOURNAL_SUFFIXES):
            return Path(storage).parent
        return _database_folder(parsed_url(str(storage)))
    backend = None if storage is None else wrapped_backend(storage)
    if isinstance(backend, RDBStorage):
        return _database_folder(backend.engine.url)
    if isinstance(backend, JournalFileBackend):
        return journal_path(backend).parent
    return Path()


def file_of(storage: BaseStorage) -> Path | None:
    """Return the file in which a storage keeps its studies, or None for memory and for a server."""
    backend = wrapped_backend(storage)
    if isinstance(backend, JournalFileBackend):
        return journal_path(backend)
    if isinstance(backend, RDBStorage) and backend.engine.url.get_backend_name() == "sqlite":
        return Path(backend.engine.url.database or "")
    return None


@contextlib.contextmanager
def quiet_optuna() -> Generator[None, None, None]:
    """Silence Optuna's messages about new studies inside this context; warnings remain."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _opened(text: str) -> BaseStorage:
    if text.endswith(JOURNAL_SUFFIXES) and "://" not in text:
        try:
            with naming_full_disks(text, Path(text)):
                return JournalStorage(MendedJournal(text))
        except OSError as error:
            raise ValueError(f"storage {text} cannot be opened: {error.strerror or error}") from None
    url = parsed_url(text)
    if url.get_backend_name() == "sqlite" and url.host:
        raise ValueError(
            f"storage {redacted(text)} has two slashes, after which a machine is named: write sqlite:///{url.host}"
        )
    if url.drivername in ("postgres", "postgresql"):
        # As servers' consoles write it. The driver of the extra comes first.
        is_older = find_spec("psycopg") is None and find_spec("psycopg2") is not None
        url = url.set(drivername="postgresql+psycopg2" if is_older else "postgresql+psycopg")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError("an SQLite database in memory cannot be shared between threads; for memory give storage=None")
    try:
        is_file = url.get_backend_name() == "sqlite"

        def patience(error: BaseException) -> float:
            by_others = any(sign in str(error) for sign in MADE_BY_OTHERS)
            return OPENING_SECONDS if is_file and not by_others else SERVER_SECONDS

        return with_retries(lambda: _database(url), patience, opening=True)
    except (ImportError, exc.NoSuchModuleError):
        driver = url.drivername
        extra = ": pip install bmbo[postgresql]" if driver == "postgresql+psycopg" else ""
        raise ValueError(
            f"storage {redacted(text)} needs the driver of {driver!r}, which is not installed{extra}"
        ) from None
    except (StorageInternalError, exc.SQLAlchemyError) as error:
        raise ValueError(f"storage {redacted(text)} cannot be opened: {reason(error)}") from None


def _database(url: URL) -> RDBStorage:
    """Return the storage in a database; make its tables if they are not there."""
    address = url.render_as_string(hide_password=False)
    if url.get_backend_name() == "sqlite":
        # Before the errors of a full disk are taken for those of a file that others are making.
        with naming_full_disks(redacted(address), database_file(url)):
            make_tables(address)
            return RDBStorage(address, engine_kwargs={"connect_args": {"timeout": BUSY_SECONDS}})
    # A server may have closed a connection that was idle during a long trial.
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.get_backend_name() == "postgresql" and url.get_driver_name() in ("psycopg", "psycopg2"):
        limits = {"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": 1000 * DEAD_SECONDS}
        limits |= {"keepalives_idle": DEAD_SECONDS, "keepalives_interval": 10, "keepalives_count": 3}
        options["connect_args"] = {name: value for name, value in limits.items() if name not in url.query}
    return RDBStorage(address, engine_kwargs=options)


def _prepare(backend: RDBStorage) -> None:
    """Make a database safe for many processes and for outages, once."""
    engine: Any = backend.engine
    if getattr(engine, "_bmbo_prepared", False):
        return
    engine._bmbo_prepared = True
    if engine.dialect.name == "sqlite":
        make_atomic(engine)
        with naming_full_disks(redacted(backend), database_file(engine)):
            complete_tables(engine)
    report_outages(engine, redacted(backend), database_file(engine))
    write_each_trial_once(backend)
    _keep_to_our_words()


def _keep_to_our_words() -> None:
    """Silence what drivers say about cut connections: SQL and tracebacks, of what `outages` says in one line."""
    for name in ("sqlalchemy.pool", "psycopg", "psycopg.pool"):
        driver = logging.getLogger(name)
        if driver.level == logging.NOTSET:
            driver.setLevel(logging.CRITICAL)


def _database_folder(url: Any) -> Path:
    return Path(url.database).parent if url.get_backend_name() == "sqlite" and url.database else Path()
