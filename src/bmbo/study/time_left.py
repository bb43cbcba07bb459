"""Say how long a run will still take, from its limits and from how fast results have arrived."""

from bisect import bisect_right

from bmbo.history import History
from bmbo.study.limits import Limits, counted

RECENT = 0.5
"""Part of the work so far whose pace counts: cheap trials come first, so that the pace changes."""


class TimeLeft:
    """Know when results arrived, and expect the next ones at the same pace.

    Args:
        history: what the study holds when the run begins.
        limits: of the run.
    """

    def __init__(self, history: History, limits: Limits) -> None:
        self._limits = limits
        # What the study had used of each limit, and when: with the beginning, and with each result.
        self._seconds = [0.0]
        self._used: tuple[list[float], list[float]] = ([], [])
        self._under_way = (0.0, 0.0)
        self._keep(history)

    def note(self, history: History, now: float) -> None:
        """Take in what the study holds `now` seconds after the beginning of the run."""
        self._seconds.append(now)
        self._keep(history)

    def left(self, now: float) -> float | None:
        """Return the seconds until the first of the limits is reached; None while nobody can know.

        What is under way may end at any time. So this shrinks while nothing arrives, but not below the time of what has
        not begun yet.
        """
        found: list[float] = []
        if self._limits.timeout is not None:
            found.append(self._limits.timeout - now)
        limits = (self._limits.total_cost, self._limits.n_trials)
        for limit, used, under_way in zip(limits, self._used, self._under_way, strict=True):
            if limit is not None and used[-1] > used[0]:
                since = bisect_right(used, used[-1] - RECENT * (used[-1] - used[0])) - 1
                each = (self._seconds[-1] - self._seconds[since]) / (used[-1] - used[since])
                to_do = limit - used[-1]
                found.append(max(to_do * each - (now - self._seconds[-1]), (to_do - under_way) * each))
        return max(min(found), 0.0) if found else None

    def _keep(self, history: History) -> None:
        finished = counted(trial for trial in history.trials if trial.outcome is not None)
        for used, amount in zip(self._used, (history.spent, float(finished)), strict=True):
            # A refund makes it smaller; the search for a pace needs a sorted list.
            used.append(max(amount, used[-1]) if used else amount)
        self._under_way = (history.in_flight, float(counted(history.trials) - finished))
