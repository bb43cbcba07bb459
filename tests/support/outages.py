"""Storages that fail as real ones do: their answers are lost, they are locked, or their disk is full."""

import contextlib
import sqlite3
import threading
from typing import Any

from optuna.storages import RDBStorage

from bmbo.ledger.optuna_private import wrapped_backend


def engine_of(storage):
    """The engine of a database that is behind a cache."""
    backend = wrapped_backend(storage)
    assert isinstance(backend, RDBStorage)
    return backend.engine


class LostAnswers:
    """A database that keeps what is committed, and whose answer to some commits never arrives."""

    def __init__(self, storage):
        dialect: Any = engine_of(storage).dialect
        self._commit = dialect.do_commit
        self._kept = self._left = 0
        dialect.do_commit = self._do_commit

    def lose(self, num=1, after=0):
        """Lose so many answers, after so many that arrive."""
        self._kept, self._left = after, num

    def _do_commit(self, connection):
        self._commit(connection)
        if self._kept:
            self._kept -= 1
        elif self._left:
            self._left -= 1
            raise sqlite3.OperationalError("the connection was cut")


class Lock:
    """The lock of a database of SQLite, held by somebody else."""

    def __init__(self, path):
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=20)
        self._timers = []

    def take(self, seconds=None):
        self._connection.execute("BEGIN IMMEDIATE")
        if seconds is not None:
            self._timers.append(threading.Timer(seconds, self.give_back))
            self._timers[-1].start()

    def give_back(self):
        with contextlib.suppress(sqlite3.OperationalError):
            self._connection.execute("ROLLBACK")

    def close(self):
        for timer in self._timers:
            timer.join()
        self.give_back()
        self._connection.close()
