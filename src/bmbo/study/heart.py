"""Give signs of life while a run plans or works."""

import contextlib
import logging
import threading
from collections.abc import Generator, Mapping

from bmbo.ledger import Ledger, LedgerEntry, Owner
from bmbo.problem import Number
from bmbo.study.planner import QueueKeeper

logger = logging.getLogger("bmbo")

BEATS_PER_GRACE = 6
"""Signs of life in a grace period: several may be lost."""

JOIN_SECONDS = 2.0
"""How long the end of a run waits for a sign of life that is being written."""


@contextlib.contextmanager
def beating(
    ledger: Ledger, owner: Owner, queue: QueueKeeper, in_flight: Mapping[int, LedgerEntry], grace: Number
) -> Generator[None, None, None]:
    """Keep the lease and the claimed trials alive from a separate thread inside this context.

    No error ends the thread: a run whose storage was away for hours may still be at work on a trial. A trial that
    others have taken meanwhile gets no more signs of life from here, which would hide the end of its new owner.

    Args:
        ledger: the record of the study.
        owner: this process.
        queue: has the lease.
        in_flight: the trials of this process, by number; it changes meanwhile.
        grace: seconds of silence after which a process counts as dead.
    """
    ended = threading.Event()
    taken: set[int] = set()

    def beat_once(count: int) -> None:
        queue.beat()
        for number, entry in list(in_flight.items()):
            if not ended.is_set() and not ledger.beat(entry, owner.text, count) and number not in taken:
                taken.add(number)
                logger.warning(
                    "trial %d was given to another process, because this one gave no sign of life for %g s; the "
                    "results of both are kept",
                    number,
                    grace,
                )

    def beat() -> None:
        count = 0
        while not ended.wait(grace / BEATS_PER_GRACE):
            count += 1
            try:
                beat_once(count)
            except Exception as error:
                logger.warning("a sign of life could not be written, and the next one is tried: %s", error)

    thread = threading.Thread(target=beat, name="bmbo-heart", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(JOIN_SECONDS)
