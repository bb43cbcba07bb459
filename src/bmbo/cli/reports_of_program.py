"""Read what a program reports while it runs: lines of JSON such as {"step": 3, "report": 0.41} on its output."""

import json
import logging
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import IO, Any

from bmbo.problem.number_checks import is_real
from bmbo.study.trial import Trial

logger = logging.getLogger("bmbo")

PAUSE = 0.2
"""Seconds between two looks at the output."""


class ReportsOfProgram:
    """Pass the reports of a program on to its trial, and end the program when the trial should stop.

    Args:
        trial: that the program runs.
        out: the file to which the program writes.

    Attributes:
        out: the file to which the program writes.
        last: the value that was reported last; None before the first.
    """

    def __init__(self, trial: Trial, out: IO[bytes]) -> None:
        self.out = out
        self._trial = trial
        self._read, self._rest = 0, b""
        self._ended = threading.Event()
        self.last: float | None = None
        self._has_refused = False

    @contextmanager
    def followed(self, end: Callable[[], None]) -> Generator[None, None, None]:
        """Read the output while this context lasts, and once more at its end; `end` asks the program to stop."""
        thread = threading.Thread(target=self._follow, args=(end,), name="bmbo-reports", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _follow(self, end: Callable[[], None]) -> None:
        was_asked = False
        while not self._ended.wait(PAUSE):
            if self._pass_on() and not was_asked and self._trial.should_stop():
                was_asked = True
                end()
        # A program that was asked to end may report once more, and one that goes on reports up to its own fidelity.
        if self._pass_on() and was_asked:
            self._trial.should_stop()

    def _pass_on(self) -> bool:
        """Report the new lines, and return whether there were any."""
        has_new = False
        # The program writes to the same file: reading at a place of our own leaves its place alone.
        while new := os.pread(self.out.fileno(), 1 << 16, self._read):
            self._read += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            for line in lines:
                found = _report_in(line)
                if found is not None:
                    self.last = found[0]
                    has_new = self._report(*found) or has_new
        return has_new

    def _report(self, value: float, step: Any) -> bool:
        """Pass a report on, and return whether the study takes any; a study of several objectives takes none."""
        try:
            self._trial.report(value, step)
        except NotImplementedError as error:
            if not self._has_refused:
                logger.warning("what the program of trial %d reports is not kept: %s", self._trial.number, error)
            self._has_refused = True
            return False
        return True


def _report_in(line: bytes) -> tuple[float, Any] | None:
    """Return the value and the step of a line that is a report, else None."""
    if b'"report"' not in line:
        return None
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not is_real(found.get("report")) or not is_real(found.get("step")):
        return None
    return float(found["report"]), found["step"]
