"""Lock a journal as Optuna does, and see at once when a process of this machine died while it held the lock."""

import contextlib
import os
import sys
import time
from pathlib import Path

from optuna.storages.journal import JournalFileSymlinkLock

from bmbo.ledger import owners

if sys.platform != "win32":
    import fcntl

QUEUE_SECONDS = 10.0
"""How long to wait for others of bmbo while the journal does not change; then Optuna's rule alone counts."""

LONGEST_PAUSE = 0.05
"""Seconds between two tries."""


class JournalLock:
    """Hold the lock of a journal for one process at a time.

    Optuna's lock is a link beside the journal. If its maker dies, others wait half a minute, and then two of them may
    hold it at once. Processes of bmbo therefore queue for a second file, which the system gives back when its holder
    dies. Its content says which link the holder has made. Who gets it and finds that link removes it. Where a system or
    a drive has no such locks, and for processes of Optuna itself, Optuna's rule holds.

    Args:
        path: the journal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._optunas = JournalFileSymlinkLock(path)
        self._file: int | None = None
        self._own = ""

    def acquire(self) -> None:
        """Wait for the lock."""
        self._file = self._first_in_queue()
        try:
            if self._file is not None and self._is_left_by_the_dead(self._file):
                with contextlib.suppress(RuntimeError):
                    self._optunas.release()
            self._optunas.acquire()
        except BaseException:
            self._leave_queue()
            raise
        self._own = self._link()
        if self._file is not None:
            # On a full disk, nobody learns of the death of this process.
            with contextlib.suppress(OSError):
                os.pwrite(self._file, self._own.encode(), 0)

    def release(self) -> None:
        """Give the lock back; if others have taken it from a holder that stood still, leave it to them."""
        try:
            if self._link() == self._own:
                self._optunas.release()
        finally:
            self._leave_queue()

    def _first_in_queue(self) -> int | None:
        """Return the second file, locked; None if it cannot be locked here, or its holder stands still."""
        if sys.platform == "win32":
            return None
        try:
            file = os.open(f"{self._path}.holder", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None
        changed, since, pause = self._change(), time.monotonic(), 0.001
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            except OSError:
                break
            else:
                return file
            if changed != (changed := self._change()):
                since = time.monotonic()
            if time.monotonic() - since > QUEUE_SECONDS:
                break
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        os.close(file)
        return None

    def _leave_queue(self) -> None:
        file, self._file = self._file, None
        if file is not None and sys.platform != "win32":
            # Not by closing it alone: a child that was forked meanwhile has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def _change(self) -> int:
        try:
            return os.stat(self._path).st_mtime_ns
        except OSError:
            return 0

    def _is_left_by_the_dead(self, file: int) -> bool:
        """Return whether the link is the one that the last holder of the file has made on this machine."""
        link = self._link()
        return bool(link) and os.pread(file, 2 * len(link), 0).split(b"\n")[0] + b"\n" == link.encode()

    def _link(self) -> str:
        """Return which link there is, as text of one line; empty if there is none."""
        try:
            seen = Path(f"{self._path}.lock").lstat()
        except OSError:
            return ""
        return f"{owners.this_host()} {seen.st_ino} {seen.st_ctime_ns}\n"
