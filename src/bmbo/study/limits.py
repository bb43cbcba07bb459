"""Say when a run ends, and what it can still afford. Every part that spends a budget asks here."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bmbo.history import History, TrialRecord
from bmbo.problem.number_checks import positive_number, whole_number

ADDED = "added"
"""Tag of trials that were run elsewhere: no limit counts them."""

Item = TypeVar("Item")


def affordable(items: Iterable[Item], cost_of: Callable[[Item], float], budget: float) -> list[Item]:
    """Return the items that a budget pays for, taken in their order; an item that is too dear is left out."""
    kept: list[Item] = []
    for item in items:
        if cost_of(item) <= budget:
            budget -= cost_of(item)
            kept.append(item)
    return kept


def counted(trials: Iterable[TrialRecord]) -> int:
    """Return how many trials a limit counts: those that were not run elsewhere and not given back."""
    return sum(ADDED not in trial.query.tag and not trial.refunded for trial in trials)


@dataclass(frozen=True)
class Limits:
    """Hold when a run ends.

    Attributes:
        total_cost: what all trials of the study may cost together.
        n_trials: how many trials the study may have.
        timeout: seconds from the start of this run.
    """

    total_cost: float | None = None
    n_trials: int | None = None
    timeout: float | None = None

    @classmethod
    def checked(cls, total_cost: object, n_trials: object, timeout: object) -> "Limits":
        """Return limits that a user gave; raise ValueError if there is none, or one is not a positive number."""
        if total_cost is None and n_trials is None and timeout is None:
            raise ValueError("give at least one of total_cost, n_trials and timeout, or the run would never end")
        return cls(
            None if total_cost is None else positive_number("total_cost", total_cost),
            None if n_trials is None else whole_number("n_trials", n_trials),
            None if timeout is None else positive_number("timeout", timeout),
        )

    def room(self, history: History) -> float:
        """Return how many more trials there may be."""
        return math.inf if self.n_trials is None else float(self.n_trials - counted(history.trials))

    def most_trials(self, history: History) -> int | None:
        """Return how many trials the history may have at the end, all trials counted; None for no limit."""
        return None if self.n_trials is None else len(history.trials) + int(self.room(history))

    def left(self, history: History) -> float:
        """Return what more trials may cost; the cost of trials in flight is already taken off."""
        if self.total_cost is None:
            return math.inf
        return self.total_cost - history.spent - history.in_flight

    def reached(self, history: History) -> bool:
        """Return whether nothing waits or runs, and no other trial can be planned."""
        return not history.pending and (self.room(history) < 1 or self.left(history) < history.prices.least)

    def startable(self, history: History, waiting: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Return the waiting trials that the budget pays for: users may queue any trial, and prices may rise."""
        if self.total_cost is None:
            return list(waiting)
        prices = {trial.number: history.prices.of(trial.query.unit, trial.query.level) for trial in waiting}
        # The last term lets a plan for the whole budget through, whatever its sum was rounded to.
        budget = self.left(history) + sum(prices.values()) + 1e-9 * self.total_cost
        return affordable(waiting, lambda trial: prices[trial.number], budget)

    def reserve(self, costs: Sequence[float]) -> tuple[int, float]:
        """Return the trials and the cost that are kept to confirm a recommendation that may be new.

        Nothing is kept where this would leave nothing to search with.
        """
        trials = 1 if self.n_trials is not None and self.n_trials > 1 else 0
        enough = self.total_cost is not None and self.total_cost - costs[-1] >= min(costs)
        return trials, costs[-1] if enough else 0.0
