"""Say in a sentence that a storage cannot be written, is damaged, or was changed by something else than bmbo."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage
from sqlalchemy import exc

from bmbo.ledger.passwords import without_passwords
from bmbo.ledger.storages import JOURNAL_SUFFIXES, Storage, open_storage, parsed_url, redacted

TABLES = (
    "studies",
    "study_directions",
    "study_user_attributes",
    "trials",
    "trial_params",
    "trial_values",
    "trial_user_attributes",
    "trial_system_attributes",
    "trial_intermediate_values",
)
"""The tables of Optuna without which a study would be read wrongly."""

DAMAGED = ("no such table", "no such column", "malformed", "not a database", "corrupt")
READ_ONLY = ("readonly", "read-only", "permission denied", "not permitted")

Call = TypeVar("Call", bound=Callable[..., Any])


class DamagedStorageError(ValueError):
    """Report that a storage holds what bmbo cannot have written, or lacks what it has written."""


def tells_of_failed_writing(method: Call) -> Call:
    """Turn errors of a ledger's method that mean a storage which cannot be written into sentences."""

    @functools.wraps(method)
    def writing(ledger: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return method(ledger, *arguments, **options)
        except (StorageInternalError, exc.SQLAlchemyError, PermissionError) as error:
            told = _lasting(error, f"study {ledger.name!r} in {redacted(ledger.storage)}")
            if told is None:
                raise
            raise told from error

    return cast(Call, writing)


def tells_of_damage(method: Call) -> Call:
    """Turn errors of a ledger's method that mean a storage whose content makes no sense into sentences."""

    @functools.wraps(method)
    def told(ledger: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return tells_of_failed_writing(method)(ledger, *arguments, **options)
        except (json.JSONDecodeError, LookupError, AttributeError, TypeError, AssertionError) as error:
            if isinstance(error, KeyError) and _is_gone(ledger):
                where = redacted(ledger.storage)
                raise KeyError(f"there is no study {ledger.name!r} in {where} any more; was it deleted?") from error
            raise unreadable(f"study {ledger.name!r} in {redacted(ledger.storage)}", error) from error

    return cast(Call, told)


def unreadable(what: str, error: Exception) -> DamagedStorageError:
    """Return the error to raise when what a storage holds cannot be understood."""
    reason = without_passwords(" ".join(str(error).split()))
    if isinstance(error, LookupError | AttributeError | TypeError | AssertionError):
        # Their text is about code.
        reason = f"a record in it makes no sense: {type(error).__name__}"
    return DamagedStorageError(
        f"{what} cannot be read ({reason}): the storage is damaged, or something else than bmbo changed it; go on with "
        "a backup"
    )


def opened_whole(storage: Storage, *, must_exist: bool = False) -> BaseStorage:
    """Return an opened storage after a look at what it holds.

    Args:
        storage: as for `open_storage`.
        must_exist: whether an SQLite file must have the tables of Optuna already, so that none are made in it.

    Raises:
        DamagedStorageError: It lacks tables, or its records make no sense.
    """
    _check_tables(storage, must_exist=must_exist)
    try:
        return open_storage(storage)
    except (json.JSONDecodeError, LookupError, AttributeError, AssertionError) as error:
        raise unreadable(f"storage {redacted(storage)}", error) from error
    except (TypeError, ValueError) as error:
        # Ours are sentences already; those of a journal are about its records.
        if not str(storage).endswith(JOURNAL_SUFFIXES) or not isinstance(storage, str | Path) or _is_ours(error):
            raise
        raise unreadable(f"storage {redacted(storage)}", error) from error


def _is_ours(error: Exception) -> bool:
    return str(error).startswith(("storage", "study", "this journal"))


def _check_tables(storage: Storage, *, must_exist: bool) -> None:
    """Raise DamagedStorageError if a database has studies, but lacks a table: Optuna would make an empty one.

    A database without any study may be one that another process is making.
    """
    if not isinstance(storage, str) or "://" not in storage:
        return
    url = parsed_url(storage)
    # Other databases are not lost table by table.
    if url.get_backend_name() != "sqlite" or not url.database or not Path(url.database).is_file():
        return
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    try:
        with engine.connect() as connection:
            known = set(sqlalchemy.inspect(connection).get_table_names())
            missing = [table for table in TABLES if table not in known]
            used = [table for table in ("studies", "trials") if table in known]
            if must_exist and "studies" not in known and "trials" not in known:
                raise DamagedStorageError(f"there are no studies in {redacted(storage)}; is it the right file?")
            if missing and any(connection.execute(_first_row(table)).first() for table in used):
                raise DamagedStorageError(
                    f"storage {redacted(storage)} is damaged: it has no table {missing[0]!r}; go on with a backup"
                )
    except exc.SQLAlchemyError:
        # Opening the storage says what is wrong.
        return
    finally:
        engine.dispose()


def _first_row(table: str) -> Any:
    return sqlalchemy.select(sqlalchemy.text("1")).select_from(sqlalchemy.table(table)).limit(1)


def _is_gone(ledger: Any) -> bool:
    """Return whether the storage of a ledger no longer has its study."""
    try:
        ledger.storage.get_study_id_from_name(ledger.name)
    except KeyError:
        return True
    return False


def _lasting(error: Exception, what: str) -> DamagedStorageError | None:
    """Return the error to raise for one of a database, or None if it says nothing about damage or rights."""
    cause: Any = error.__cause__ if isinstance(error, StorageInternalError) else error
    reason = without_passwords(str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0])
    if isinstance(error, PermissionError) or any(sign in reason.lower() for sign in READ_ONLY):
        return DamagedStorageError(f"{what} cannot be written ({reason}): you need the right to write it")
    is_damaged = any(sign in reason.lower() for sign in DAMAGED)
    return unreadable(what, RuntimeError(reason)) if is_damaged else None
