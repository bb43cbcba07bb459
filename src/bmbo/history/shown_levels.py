"""Choose which levels tables and figures show, where there are many."""

from bmbo.history.trial_records import History
from bmbo.problem.spread_levels import has_many, spread_levels

MOST_SQUARES = 12
"""Levels up to which each two are compared in a figure."""


def shown_levels(history: History) -> tuple[int, ...]:
    """Return all levels, or where there are many the first, the top and those that were asked."""
    ladder = history.problem.ladder
    if not has_many(ladder.num_levels):
        return tuple(range(ladder.num_levels))
    return tuple(sorted({0, ladder.top} | {trial.query.level for trial in history.trials}))


def compared_levels(history: History) -> tuple[int, ...]:
    """Return the levels that are compared with each other: the shown ones, or if these are too many a spread."""
    shown = shown_levels(history)
    if len(shown) <= MOST_SQUARES or not has_many(history.problem.ladder.num_levels):
        return shown
    return spread_levels(history.problem.ladder)
