"""Keep figures that are made anew in the background while a study runs."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

logger = logging.getLogger("bmbo")

SHORTEST_PAUSE = 10.0
"""Seconds between two makings of the figures."""
SHARE = 0.1
"""Part of its time that the server spends on making figures, at most."""


class LiveFigures:
    """Hold what `make` returns, and call it again in the background when it is asked for and old enough.

    Args:
        make: makes the attributes.
        state: returns something that differs after the study has changed.
    """

    def __init__(self, make: Callable[[], Mapping[str, Any]], state: Callable[[], object]) -> None:
        self._make, self._state = make, state
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._attributes: Mapping[str, Any] = {}
        self._made_of: object = None
        self._next = 0.0
        self.refresh()

    def attributes(self) -> Mapping[str, Any]:
        """Return the newest attributes, and begin to make newer ones if it is time."""
        with self._lock:
            is_busy = self._thread is not None and self._thread.is_alive()
            if not is_busy and time.monotonic() >= self._next:
                self._thread = threading.Thread(target=self._try_to_refresh, name="bmbo-figures", daemon=True)
                self._thread.start()
            return self._attributes

    def refresh(self) -> None:
        """Make the attributes anew if the study has changed."""
        begun, state = time.monotonic(), self._state()
        if state != self._made_of:
            self._attributes, self._made_of = self._make(), state
        ended = time.monotonic()
        self._next = ended + max(SHORTEST_PAUSE, (ended - begun) / SHARE)

    def _try_to_refresh(self) -> None:
        try:
            self.refresh()
        # The page keeps the figures that it has, whatever went wrong.
        except Exception as error:
            logger.warning("the figures of the dashboard stay as they are: %s", error)
            self._next = time.monotonic() + SHORTEST_PAUSE
