"""Say what a run waits for, once in a while, so that no run stands still without a word."""

import logging
import time
from collections.abc import Callable, Sequence

from bmbo.ledger import ASKED, LedgerEntry, LedgerSnapshot, shown_owner

logger = logging.getLogger("bmbo")

FIRST_SECONDS, LONGEST_SECONDS = 30.0, 600.0
"""Idle seconds before the first line, and the longest pause between two lines; the pause doubles in between."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
"""Seconds between looks at the ledger while others work. The pause doubles from the first to the second."""

SHARE, CROWDED_PAUSE = 0.1, 5.0
"""The share of the time that looks may take, and the longest pause for that: in a crowd, looks hold up who works."""

MOST_NAMED = 8
"""How many trials a line names."""


def next_pause(pause: float, looked: float) -> float:
    """Return how long to wait for the next look at the ledger.

    Args:
        pause: the seconds before this look.
        looked: the seconds that it took.
    """
    return max(min(2 * pause, LONGEST_PAUSE), min(looked / SHARE, CROWDED_PAUSE))


class WaitingNotice:
    """Log what a run waits for while it runs nothing.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: float | None = None
        self._pause = FIRST_SECONDS

    def busy(self) -> None:
        """Note that the run does something."""
        self._next = None

    def idle(self, snapshot: LedgerSnapshot) -> None:
        """Note that the run does nothing, and log why if it is time for a line."""
        now = self._clock()
        if self._next is None:
            self._pause = FIRST_SECONDS
            self._next = now + self._pause
        elif now >= self._next:
            self._pause = min(2 * self._pause, LONGEST_SECONDS)
            self._next = now + self._pause
            asked = _asked(snapshot)
            logger.log(logging.WARNING if asked else logging.INFO, "%s", waiting_line(snapshot))


def waiting_line(snapshot: LedgerSnapshot) -> str:
    """Return what a run waits for that runs nothing itself, and what a user can do about it."""
    asked = _asked(snapshot)
    parts: list[str] = []
    if asked:
        one = asked[0].trial.number
        parts.append(
            f"for {_named(asked)}, asked for and never told: study.tell({one}, value) tells a value, "
            f'study.tell({one}, state="waiting") leaves the trial to a run, and study.drop({one}) or '
            f"bmbo drop --trials {one} gives it up (study.retry or bmbo retry queues it again)"
        )
    if snapshot.running:
        owners = sorted({shown_owner(entry.owner) for entry in snapshot.running if entry.owner is not None})
        runners = f", run by {', '.join(owners[:MOST_NAMED])}" if owners else ""
        parts.append(f"for {_named(snapshot.running)}{runners}")
    if snapshot.waiting:
        parts.append(
            f"because the budget has no room for {_named(snapshot.waiting)} now: give a larger total_cost, or drop them"
        )
    return "waiting " + "; and ".join(parts or ["for the process that plans this study to plan more"])


def _asked(snapshot: LedgerSnapshot) -> list[LedgerEntry]:
    """Return the trials that a user asked for and has not told."""
    return [entry for entry in snapshot.entries if entry.state == "running" and entry.owner == ASKED]


def _named(entries: Sequence[LedgerEntry]) -> str:
    numbers = [str(entry.trial.number) for entry in entries[:MOST_NAMED]]
    more = f" and {len(entries) - MOST_NAMED} more" if len(entries) > MOST_NAMED else ""
    return f"trial {numbers[0]}" if len(entries) == 1 else f"trials {', '.join(numbers)}{more}"
