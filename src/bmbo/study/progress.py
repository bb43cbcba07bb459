"""Show a person how far a run has come, and that it is at work while nothing arrives."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from tqdm.auto import tqdm

from bmbo.history import History
from bmbo.history.shown_levels import shown_levels
from bmbo.study.limits import Limits
from bmbo.study.short_text import duration
from bmbo.study.time_left import TimeLeft

logger = logging.getLogger("bmbo")

TICK_SECONDS = 0.5
"""Pause between two refreshes of the bar, so that its clock moves while nothing arrives."""

LONG_SECONDS = 10.0
"""A choice that took longer is mentioned where no bar shows it."""


WITH_LIMIT = "{desc}: {percentage:3.0f}%|{bar:20}| {n:g}/{total:g} {unit} [{elapsed}<{left}{postfix}]"
WITHOUT_LIMIT = "{desc}: {n:g} {unit} [{elapsed}<{left}{postfix}]"


class _Bar(tqdm):
    """Show our time left in place of tqdm's, which knows one limit only and grows while nothing arrives."""

    seconds_left: Callable[[], float | None] = staticmethod(lambda: None)

    @property
    def format_dict(self) -> dict[str, Any]:
        """Return the fields of the format of the bar."""
        seconds = self.seconds_left()
        return {**super().format_dict, "left": "?" if seconds is None else self.format_interval(round(seconds))}


class Progress:
    """Show a bar over the cost, or over trials if there is no budget, with the best value and the use of each level.

    Like the limits, it also counts what the study held before this run.

    Args:
        history: what the study holds.
        limits: of the run.
        show: whether to show the bar; None for yes in a terminal and in a notebook, no where output goes to a file.
    """

    def __init__(self, history: History, limits: Limits, show: bool | None) -> None:
        self._by_cost = limits.total_cost is not None
        self._done = self._count(history)
        limit = limits.total_cost if self._by_cost else limits.n_trials
        self._is_shown = is_watched() if show is None else show
        self._begun = time.monotonic()
        self._time_left = TimeLeft(history, limits)
        self._bar = _Bar(
            total=None if limit is None else max(limit, self._done),
            initial=self._done,
            unit="cost" if self._by_cost else "trial",
            bar_format=WITHOUT_LIMIT if limit is None else WITH_LIMIT,
            desc="bmbo",
            disable=not self._is_shown,
            dynamic_ncols=True,
        )
        self._bar.seconds_left = lambda: self._time_left.left(time.monotonic() - self._begun)
        self._choosing_since: float | None = None
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="bmbo-bar", daemon=True)

    def show(self, history: History) -> None:
        """Move the bar to what the history says."""
        if self._is_shown:
            self._time_left.note(history, time.monotonic() - self._begun)
        now = self._count(history)
        self._bar.set_postfix_str(describe(history), refresh=False)
        if self._bar.total is not None:
            # Results added meanwhile may go beyond the limit; tqdm would then forget that there is one.
            self._bar.total = max(self._bar.total, now)
        self._bar.update(now - self._done)
        self._done = now

    @contextmanager
    def choosing(self) -> Generator[None, None, None]:
        """Show inside this context that the next batch is being chosen, and for how long already."""
        begun = self._choosing_since = time.monotonic()
        self._describe()
        try:
            yield
        finally:
            self._choosing_since = None
            self._describe()
            seconds = time.monotonic() - begun
            if seconds >= LONG_SECONDS and not self._is_shown:
                logger.info("the next batch was chosen in %s", duration(seconds))

    def _describe(self) -> None:
        """Say before the bar what is being done."""
        since = self._choosing_since
        text = "bmbo" if since is None else f"bmbo, choosing the next batch ({time.monotonic() - since:.0f} s)"
        self._bar.set_description_str(text)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            self._describe()

    def _count(self, history: History) -> float:
        return history.spent if self._by_cost else float(len(history.told))

    def __enter__(self) -> "Progress":  # noqa: PYI034 (run-time type checks know no Self)
        if self._is_shown:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._is_shown:
            self._ticker.join()
        self._bar.close()


def is_watched() -> bool:
    """Return whether standard error is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__)


def describe(history: History) -> str:
    """Return the best value at the top fidelity and the number of queries at each level, in one line."""
    ladder = history.problem.ladder
    levels = [trial.query.level for trial in history.trials]
    used = " ".join(f"{ladder[level].name}:{levels.count(level)}" for level in shown_levels(history))
    if history.problem.objectives:
        return f"front {len(history.front)}, {used}"
    best = history.best
    return f"best {'-' if best is None else format(best.value, '.5g')}, {used}"
