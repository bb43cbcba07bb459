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

from bmbo.ledger.outages import num_outages
from bmbo.problem import Number

CLOCK_SECONDS = 2.0
"""How far two readings of the start time of one process may differ, where the system has no ticks."""

TICKS = "ticks:"
"""Beginning of a start time that Linux counts from its own start. No change of the clock moves it."""

UNKNOWN = "unknown"
"""The start of a process that exists and that the system does not show."""

_present: set[str] = set()
"""Tokens of the owners in this process that have not left yet."""


@dataclass(frozen=True)
class Owner:
    """Describe one run in one process.

    Attributes:
        host: the machine, since its last start, and its space of process ids.
        pid: the process.
        started: when the process started: on Linux in ticks since the start of the machine, elsewhere in seconds since
            1970. Development versions wrote seconds on Linux too.
        token: random text, so that no other owner ever has the same `text`.
    """

    host: str
    pid: int
    started: str
    token: str

    @classmethod
    def new(cls) -> "Owner":
        """Return a new owner in this process; it counts as alive until `leave`."""
        owner = cls(this_host(), os.getpid(), start_of(os.getpid()) or UNKNOWN, uuid.uuid4().hex[:12])
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
            if started != UNKNOWN:
                float(started.removeprefix(TICKS))
            return cls(host, int(pid), started, token)
        except ValueError:
            return None

    def leave(self) -> None:
        """Record in this process that this owner runs nothing any more."""
        _present.discard(self.token)

    @property
    def is_dead(self) -> bool:
        """Return whether the process has certainly ended; False for every process of another machine."""
        if self.host != this_host():
            return False
        now = start_of(self.pid)
        if now is None or now == UNKNOWN:
            return now is None
        if not _is_same_start(self.started, now):
            return True
        return self.pid == os.getpid() and self.token not in _present


def start_of(pid: int) -> str | None:
    """Return when a process started, as `Owner.started` has it; None if there is none, or only what is left of one."""
    try:
        # The name of the program, in parentheses, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else f"{TICKS}{fields[19]}"
    except (OSError, IndexError):
        pass
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return UNKNOWN if psutil.pid_exists(pid) else None
    except psutil.AccessDenied:
        return UNKNOWN


def _is_same_start(stored: str, now: str) -> bool:
    if stored.startswith(TICKS) and now.startswith(TICKS):
        return stored == now
    if stored == UNKNOWN or stored.startswith(TICKS) or now.startswith(TICKS):
        # Seconds that a development version wrote on Linux move with the clock: they say nothing.
        return True
    return abs(float(stored) - float(now)) < CLOCK_SECONDS


def is_dead(text: str | None) -> bool:
    """Return whether the process of a stored owner has certainly ended; False for None and for other texts."""
    owner = None if text is None else Owner.of(text)
    return owner is not None and owner.is_dead


@cache
def this_host() -> str:
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

    Only the clock of this process is used, because the clocks of other machines may differ from it. While the storage
    is away nobody can give a sign, so that silence counts anew from its return.

    Args:
        grace: seconds without a change after which a process is called silent.
        clock: returns the time in seconds.
    """

    def __init__(self, grace: Number, clock: Callable[[], float] = time.monotonic) -> None:
        self.grace = grace
        self._clock = clock
        self._seen: dict[Hashable, tuple[object, float]] = {}
        self._outages = num_outages()

    def is_silent(self, name: Hashable, sign: object) -> bool:
        """Return whether the sign of life under a name has been the same in all calls of the last grace period."""
        now = self._clock()
        if num_outages() != self._outages:
            self._outages = num_outages()
            self._seen.clear()
        known = self._seen.get(name)
        if known is None or known[0] != sign:
            self._seen[name] = (sign, now)
            return False
        return now - known[1] >= self.grace
