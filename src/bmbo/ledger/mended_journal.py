"""Keep a journal readable whose writer was killed, or met a full disk, in the middle of a line."""

import json
import logging
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import FileIO
from typing import Any

from optuna.storages.journal import JournalFileBackend

from bmbo.ledger.journal_lock import JournalLock

logger = logging.getLogger("bmbo")

BEGINNING = b'{"op_code":'
"""How every record of a journal begins."""

CHUNK = 4096
"""Bytes that are read at once in the search for the end of the last line."""


class NotPermittedError(Exception):
    """Report that a record was not written, because what its writer had seen before holds no more."""


class MendedJournal(JournalFileBackend):
    """Read and write a journal file as Optuna does, and mend what a writer has left half-written.

    A line that does not end was never reported as written. The next writer removes it, under the lock of the journal.
    Readers leave it out, and also leave it out where other programs have written a record behind it.

    Args:
        file_path: the file; it is made if there is none.
    """

    def __init__(self, file_path: str) -> None:
        self._own_lock = JournalLock(file_path)
        super().__init__(file_path)
        self._path = file_path
        # Where each record begins that was read before, and where the next one will.
        self._offsets = [0]
        self._warned = False
        # By thread.
        self._conditions: dict[int, Callable[[], bool]] = {}

    @contextmanager
    def only_if(self, condition: Callable[[], bool]) -> Generator[None, None, None]:
        """Let this thread write only if a condition holds when no other process can write.

        Raises:
            NotPermittedError: The condition did not hold, and nothing was written.
        """
        self._conditions[threading.get_ident()] = condition
        try:
            yield
        finally:
            del self._conditions[threading.get_ident()]

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Yield the records from a number on."""
        number = min(log_number_from, len(self._offsets) - 1)
        with open(self._path, "rb") as file:
            file.seek(self._offsets[number])
            lines = file.read().splitlines(keepends=True)
        end = self._offsets[number]
        for line in lines:
            if not line.endswith(b"\n"):
                return
            record = _record(line)
            if record is None and not self._is_still(end, line):
                # A writer mended the journal while it was read.
                return
            end += len(line)
            if record is None:
                self._warn(end - len(line))
                continue
            number += 1
            if number == len(self._offsets):
                self._offsets.append(end)
            if number > log_number_from:
                yield record

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records: all of them, or none if the disk is full."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        condition = self._conditions.get(threading.get_ident())
        self._own_lock.acquire()
        try:
            if condition is not None and not condition():
                raise NotPermittedError
            with FileIO(self._path, "a+") as file:
                end = _end_of_last_line(file)
                # Never without need: a holder that stood still may have lost the lock, and others have written since.
                if end < file.seek(0, os.SEEK_END):
                    file.truncate(end)
                try:
                    written = 0
                    while written < len(text):
                        written += file.write(text[written:])
                    os.fsync(file.fileno())
                except OSError as error:
                    file.truncate(end)
                    raise OSError(error.errno, error.strerror, self._path) from None
        finally:
            self._own_lock.release()

    def _is_still(self, place: int, line: bytes) -> bool:
        with open(self._path, "rb") as file:
            file.seek(place)
            return file.read(len(line)) == line

    def _warn(self, place: int) -> None:
        if not self._warned:
            logger.warning("%s: the line at byte %d is no record and is left out", self._path, place)
            self._warned = True


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line; where a half-written one is before it in the line, the last."""
    places = [0]
    while (place := line.find(BEGINNING, places[-1] + 1)) > 0:
        places.append(place)
    for place in places:
        try:
            record: Any = json.loads(line[place:])
        except ValueError:
            continue
        if isinstance(record, dict) and "op_code" in record:
            return record
    return None


def _end_of_last_line(file: FileIO) -> int:
    """Return where the last line ends that does end."""
    place = file.seek(0, os.SEEK_END)
    while place > 0:
        start = max(place - CHUNK, 0)
        file.seek(start)
        found = file.read(place - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        place = start
    return 0
