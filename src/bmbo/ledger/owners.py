"""Who runs a trial, and whether it is still there."""

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
"""How far two readings of a process's start may differ: the kernel's idea of when it booted moves with the clock."""

_present: set[str] = set()
"""Tokens of the owners that live in this process."""


@dataclass(frozen=True)
class Owner:
    """A run in one process: nobody else ever has its text."""

    host: str
    pid: int
    started: float
    token: str

    @classmethod
    def new(cls) -> "Owner":
        """A new owner in this process, present until `leave`."""
        owner = cls(_host(), os.getpid(), round(psutil.Process().create_time(), 2), uuid.uuid4().hex[:12])
        _present.add(owner.token)
        return owner

    @property
    def text(self) -> str:
        """As it is stored."""
        return f"{self.host}|{self.pid}|{self.started}|{self.token}"

    @classmethod
    def of(cls, text: str) -> "Owner | None":
        """The owner of a stored text; None where it is none."""
        parts = text.split("|")
        try:
            host, pid, started, token = parts
            return cls(host, int(pid), float(started), token)
        except ValueError:
            return None

    def leave(self) -> None:
        """Says that this owner runs nothing any more."""
        _present.discard(self.token)

    @property
    def is_dead(self) -> bool:
        """Whether its process is certainly gone; of other machines nothing is certain."""
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
    """Whether a stored owner is certainly gone."""
    owner = None if text is None else Owner.of(text)
    return owner is not None and owner.is_dead


@cache
def _host() -> str:
    """This machine since it was started, and in it this space of process ids: containers may share a host's name."""
    marks = [socket.gethostname()]
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists() and space.exists():
        return "/".join([*marks, boot.read_text().strip()[:8], str(space.stat().st_ino)])
    return "/".join([*marks, f"{uuid.getnode():x}"])


class Watch:
    """Says for how long marks have not changed, by this process's own clock: those of others need not agree with it."""

    def __init__(self, grace: Number, clock: Callable[[], float] = time.monotonic) -> None:
        self.grace = grace
        self._clock = clock
        self._seen: dict[Hashable, tuple[object, float]] = {}

    def is_silent(self, name: Hashable, mark: object) -> bool:
        """Whether a mark has been the same for the whole grace period."""
        now = self._clock()
        known = self._seen.get(name)
        if known is None or known[0] != mark:
            self._seen[name] = (mark, now)
            return False
        return now - known[1] >= self.grace
