"""Wait while a storage is away, say so, and give up after a set time.

How long is a matter of the process, not of one storage: a signal to end concerns every call that waits, and signs of
life are written by another thread than results.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

from optuna.exceptions import StorageInternalError
from sqlalchemy import event, exc

from bmbo.ledger.full_disk import StorageFullError, full_sentence, says_full
from bmbo.ledger.passwords import without_passwords
from bmbo.problem import Number

logger = logging.getLogger("bmbo")

PATIENCE_SECONDS = 600.0
"""How long a storage may be away during a run; a database server restarts in less time."""

LINE_SECONDS = 60.0
"""Time between two lines that say that the storage is still away."""

LONGEST_PAUSE = 3.0
"""Seconds between two tries: processes that share a storage return almost together, before any is taken for dead."""

QUIET_SECONDS = 1.0
"""An outage that is shorter is not mentioned."""

LASTING = ("no such", "readonly", "authentication", "does not exist", "too many SQL variables")
"""Parts of messages of errors that stay, among those that a database reports in the same way as an outage."""

T = TypeVar("T")


class StorageAwayError(RuntimeError):
    """Report that a storage did not answer for longer than a process may wait."""


class _UnreachableError(Exception):
    """Report one call that failed because the storage was away.

    Optuna takes the errors of a database for invalid data: it repeats some calls itself, goes on in a transaction that
    is broken, and prints SQL. It lets this exception through.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(reason)
        self.place = place


class _Waiting:
    """Hold how long calls of this process wait, and what was said about the outage that they wait for."""

    def __init__(self) -> None:
        self.seconds: float = PATIENCE_SECONDS
        self.leave_by = math.inf
        self.num_outages = 0
        self._lock = threading.Lock()
        self._since: float | None = None
        self._said: float | None = None

    def ends(self, begun: float, seconds: float | None) -> float:
        """Return when a call that began at a time gives up."""
        return min(begun + (self.seconds if seconds is None else seconds), self.leave_by)

    def say(self, begun: float, until: float, place: str, reason: str) -> None:
        """Say that the storage is away, once for all threads and then once in a while."""
        now = time.monotonic()
        with self._lock:
            self._since = begun if self._since is None else self._since
            due = now - self._since >= QUIET_SECONDS if self._said is None else now - self._said >= LINE_SECONDS
            if not due:
                return
            self._said = now
            away = now - self._since
        logger.warning(
            "%s has not answered for %.0f s (%s); trying again for %.0f s", place, away, reason, max(until - now, 0.0)
        )

    def forget(self) -> None:
        """Begin the next outage anew: nobody waits for the end of this one any more."""
        with self._lock:
            self._since = self._said = None

    def over(self) -> None:
        """Count the outage, and say that the storage is back, if it was said that it is away."""
        with self._lock:
            since, said = self._since, self._said
            self._since = self._said = None
            self.num_outages += 1
        if since is not None and said is not None:
            logger.warning("the storage answers again, after %.0f s", time.monotonic() - since)


_waiting = _Waiting()


@contextlib.contextmanager
def patient_for(seconds: Number) -> Generator[None, None, None]:
    """Let the calls of this process wait so long for a storage inside this context."""
    before = _waiting.seconds
    _waiting.seconds = seconds
    try:
        yield
    finally:
        _waiting.seconds, _waiting.leave_by = before, math.inf
        _waiting.forget()


def leave_within(seconds: Number) -> None:
    """Let no call wait for longer than so many seconds from now, until the context of `patient_for` ends."""
    _waiting.leave_by = min(_waiting.leave_by, time.monotonic() + seconds)


def num_outages() -> int:
    """Return how often a storage has come back in this process after a call to it had failed."""
    return _waiting.num_outages


def with_retries(
    call: Callable[[], T], seconds: float | Callable[[BaseException], float] | None = None, opening: bool = False
) -> T:
    """Return the result of a call to the storage, repeated with growing pauses while the storage is away.

    Args:
        call: calls the storage.
        seconds: how long to wait, or a function that says so for an error; None for what `patient_for` says, or ten
            minutes.
        opening: whether the call opens the storage, so that more kinds of errors may be temporary. The last error is
            then raised as it is.

    Raises:
        StorageAwayError: The storage was away for so long.
        StorageFullError: The disk of the storage is full.
    """
    begun, pause, failed = time.monotonic(), 0.05, False
    while True:
        try:
            result = call()
        except (_UnreachableError, StorageInternalError, exc.SQLAlchemyError, OSError) as error:
            if isinstance(error, OSError) and says_full(error, None):
                file = Path(str(error.filename or ""))
                raise StorageFullError(full_sentence(str(file), file)) from None
            if not _is_temporary(error, opening):
                raise
            place = getattr(error, "place", "the storage")
            until = _waiting.ends(begun, seconds(error) if callable(seconds) else seconds)
            now = time.monotonic()
            if now + pause > until:
                if opening:
                    raise
                raise StorageAwayError(
                    f"{place} has not answered for {now - begun:.0f} s ({reason(error)}); what was written stays, and "
                    "the same command goes on when it is back"
                ) from None
            _waiting.say(begun, until, place, reason(error))
            failed = True
        else:
            if failed:
                _waiting.over()
            return result
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def report_outages(engine: Any, place: str, file: Path | None) -> None:
    """Let a database raise the errors of this module where it is away or its disk is full.

    Args:
        engine: of SQLAlchemy.
        place: the address of the database, without a password.
        file: the file of the database, if it is one of this machine.
    """

    def failed(context: Any) -> None:
        error = context.sqlalchemy_exception
        # A ping finds out whether a connection is dead; another one is opened then.
        if error is None or context.is_pre_ping:
            return
        if says_full(error, file):
            raise StorageFullError(full_sentence(place, file))
        if _is_temporary(error, opening=False):
            raise _UnreachableError(place, reason(error))

    event.listen(engine, "handle_error", failed)


def reason(error: BaseException) -> str:
    """Return the first line of a database's error message; the other lines are SQL."""
    cause: Any = error.__cause__ if isinstance(error, StorageInternalError) else error
    return without_passwords(str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0])


def _is_temporary(error: BaseException, opening: bool) -> bool:
    """Return whether an error may be gone on the next try.

    While a storage is opened this holds for every error of the database, because another process may be making the same
    tables and rows.
    """
    cause: Any = error.__cause__ if isinstance(error, StorageInternalError) else error
    if isinstance(cause, exc.DBAPIError):
        kinds = exc.DBAPIError if opening else exc.OperationalError | exc.InterfaceError
        lasting = any(sign in str(cause.orig) for sign in LASTING)
        return cause.connection_invalidated or (isinstance(cause, kinds) and not lasting)
    # The second last: a transaction that an outage has broken.
    return isinstance(cause, _UnreachableError | exc.TimeoutError | exc.PendingRollbackError | OSError)
