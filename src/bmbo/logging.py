"""Choose what bmbo says while it works.

Runs write one line a trial to standard error, through the logger "bmbo" of Python's `logging`. A program that has set
up logging itself gets these messages through its own handlers instead.

Example:
    >>> bmbo.logging.set_verbosity(bmbo.logging.WARNING)  # only what goes wrong
"""

import logging
import sys
from enum import Enum
from logging import CRITICAL, DEBUG, ERROR, INFO, WARNING

__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "WARNING",
    "disable_default_handler",
    "enable_default_handler",
    "get_verbosity",
    "set_verbosity",
]

_logger = logging.getLogger("bmbo")


class _Writes(Enum):
    """Say when messages are written to standard error."""

    ALWAYS = "always"
    NEVER = "never"
    UNLESS_SET_UP = "unless the program has set up logging itself"


class _StandardError(logging.Handler):
    """Write messages to standard error, above a progress bar if there is one; in a log file, with the time."""

    writes = _Writes.UNLESS_SET_UP
    in_terminal = logging.Formatter("%(name)s: %(message)s")
    in_file = logging.Formatter("%(asctime)s %(name)s: %(message)s", datefmt="%Y-%m-%d %H:%M:%S")

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        is_set_up = bool(logging.getLogger().handlers)
        if self.writes is _Writes.NEVER or (self.writes is _Writes.UNLESS_SET_UP and is_set_up):
            return
        # Imported with the first message, so that `import bmbo` need not wait for it.
        from tqdm.auto import tqdm  # noqa: PLC0415

        # Looked up each time, because notebooks and tests replace it.
        stream = sys.stderr
        formatter = self.in_terminal if stream.isatty() else self.in_file
        tqdm.write(formatter.format(record), file=stream)


_handler = _StandardError()
_logger.addHandler(_handler)
_logger.setLevel(INFO)


def get_verbosity() -> int:
    """Return the level below which messages are left out, such as `bmbo.logging.INFO`."""
    return _logger.level


def set_verbosity(verbosity: int) -> None:
    """Leave out messages below a level: `INFO` (the default) has one line a trial, `WARNING` only what goes wrong."""
    _logger.setLevel(verbosity)


def enable_default_handler() -> None:
    """Write messages to standard error, even if the program has set up logging itself."""
    _handler.writes = _Writes.ALWAYS


def disable_default_handler() -> None:
    """Write nothing to standard error; handlers of the program still receive the messages."""
    _handler.writes = _Writes.NEVER
