"""Name the process that runs a trial, and find out whether it is still alive."""

import os
import socket
import time
import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from bmbo.problem import Number

CLOCK_SECONDS = 2.0
"""How far two readings of the start time of one process may differ: the system computes it from an adjusted clock."""

_present: set[str] = set()
"""Tokens of the owners in this process that have not left yet."""


@dataclass(frozen=True)
class Owner:
    """Describe one run in one process.

    Attributes:
        host: the machine, since its last start, and its space of process ids.
        pid: the process.
        started: when the process started, in seconds since 1970.
        token: random text, so that no other owner ever has the same `text`.
    """

    host: str
    pid: int
    started: float
    token: str

    @classmethod
    def new(cls) -> "Owner":
        """Return a new owner in this process; it counts as alive until `leave`."""
        owner = cls(_host(), os.getpid(), round(psutil.Process().create_time(), 2), uuid.uuid4().hex[:12])
        _present.add(owner.token)
        return owner

    @property
    def text(self) -> str:
        """Return the owner as the text that is stored."""
        return f"{self.host}|{self.pid}|{self.started}|{self.token}"

    @classmethod
    def of(cls, text: str) -> "Owner | None":
        """Return the owner that a stored text describes, or None if the text describes no owner."""
        parts = text.split("|")
        try:
            host, pid, started, token = parts
            return cls(host, int(pid), float(started), token)
        except ValueError:
            return None

    def leave(self) -> None:
        """Record in this process that this owner runs nothing any more."""
        _present.discard(self.token)

    @property
    def is_dead(self) -> bool:
        """Return whether the process has certainly ended; False for every process of another machine."""
        if self.host != _host():
            return False
        if self.pid == os.getpid() and abs(self.started - psutil.Process().create_time()) < CLOCK_SECONDS:
            return self.token not in _present
        try:
            process = psutil.Process(self.pid)
            alive = process.status() != psutil.STATUS_ZOMBIE
            return not alive or abs(process.create_time() - self.started) > CLOCK_SECONDS
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False


def is_dead(text: str | None) -> bool:
    """Return whether the process of a stored owner has certainly ended; False for None and for other texts."""
    owner = None if text is None else Owner.of(text)
    return owner is not None and owner.is_dead


@cache
def _host() -> str:
    """Return a name for this machine since its last start, and for its space of process ids.

    The host's name alone is not enough: containers may share it.
    """
    name = socket.gethostname()
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists() and space.exists():
        return f"{name}/{boot.read_text().strip()[:8]}/{space.stat().st_ino}"
    return f"{name}/{uuid.getnode():x}"


class SilenceWatch:
    """Find out which processes have shown no sign of life for a grace period.

    Only the clock of this process is used, because the clocks of other machines may differ from it.

    Args:
        grace: seconds without a change after which a process is called silent.
        clock: returns the time in seconds.
    """

    def __init__(self, grace: Number, clock: Callable[[], float] = time.monotonic) -> None:
        self.grace = grace
        self._clock = clock
        self._seen: dict[Hashable, tuple[object, float]] = {}

    def is_silent(self, name: Hashable, sign: object) -> bool:
        """Return whether the sign of life under a name has been the same in all calls of the last grace period."""
        now = self._clock()
        known = self._seen.get(name)
        if known is None or known[0] != sign:
            self._seen[name] = (sign, now)
            return False
        return now - known[1] >= self.grace
