"""Recognise that the disk of a storage is full, and say which one."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from optuna.exceptions import StorageInternalError
from sqlalchemy import exc

from bmbo.ledger.passwords import without_passwords

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a disk that is full and of a quota that is used up."""

PROBE_BYTES = 65_536
"""Twice by what the index of SQLite's log grows; with less than this, a disk counts as full."""


class StorageFullError(RuntimeError):
    """Report that the disk of a storage is full: to wait does not help."""


@contextlib.contextmanager
def naming_full_disks(place: str, file: Path | None) -> Generator[None, None, None]:
    """Raise StorageFullError in place of what a storage says inside this context when its disk is full.

    Args:
        place: the address of the storage, without a password.
        file: the file of the storage, if it is one of this machine.
    """
    try:
        yield
    except (StorageInternalError, exc.SQLAlchemyError, OSError) as error:
        if says_full(error, file):
            raise StorageFullError(full_sentence(place, file)) from None
        raise


def says_full(error: BaseException, file: Path | None) -> bool:
    """Return whether an error comes from a full disk.

    Where SQLite cannot make its log or its index, it says only "disk I/O error" or "unable to open database file". The
    disk then shows whether it takes anything.
    """
    if isinstance(error, OSError):
        return error.errno in FULL
    cause: Any = error.__cause__ if isinstance(error, StorageInternalError) else error
    said: Any = getattr(cause, "orig", None) or cause
    if "disk is full" in str(said) or getattr(said, "sqlstate", None) == "53100":
        return True
    may_be = any(sign in str(said) for sign in ("disk I/O error", "unable to open database file"))
    return file is not None and may_be and not _takes_more(file.absolute().parent)


def full_sentence(place: str, file: Path | None) -> str:
    """Return what is said of a full disk: the file, the folder and what is free; of a server, its address."""
    advice = "free some space there, then run again; what was written stays"
    if file is None:
        return f"the disk of the server of {without_passwords(place)} is full: {advice}"
    folder = file.absolute().parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return f"the disk of {file} is full: {advice}"
    cause = "; a quota or the number of files is used up" if free > PROBE_BYTES and not _takes_more(folder) else ""
    return f"the disk of {file} is full ({free / 1e6:.3g} MB are free in {folder}{cause}): {advice}"


def _takes_more(folder: Path) -> bool:
    """Return whether a folder has room for a small file; neither a quota nor a limit of files shows as free space."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno not in FULL
    return True
