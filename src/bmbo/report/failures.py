"""Group the failed trials by their reasons."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bmbo.history import TrialRecord

NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?([eE][+-]?\d+)?")
MOST_GROUPS = 20
MOST_NAMED = 5
"""Trials of a group that are named."""


@dataclass(frozen=True)
class FailureGroup:
    """Hold failed trials whose reasons differ only in numbers; `reason` is that of the newest one."""

    reason: str
    numbers: tuple[int, ...]
    levels: tuple[int, ...]
    cost: float

    @property
    def named(self) -> str:
        """Return the numbers of the trials as text, the last ones if there are many."""
        shown = ", ".join(map(str, self.numbers[-MOST_NAMED:]))
        return shown if len(self.numbers) <= MOST_NAMED else f"…, {shown}"


def failure_groups(trials: Iterable[TrialRecord]) -> tuple[FailureGroup, ...]:
    """Return the failed trials in groups, the largest group first."""
    groups: dict[str, list[TrialRecord]] = {}
    for trial in trials:
        if trial.outcome is not None and trial.outcome.error is not None:
            groups.setdefault(NUMBERS.sub("#", trial.outcome.error), []).append(trial)
    found: list[FailureGroup] = []
    for members in groups.values():
        outcomes = [trial.outcome for trial in members if trial.outcome is not None]
        found.append(
            FailureGroup(
                outcomes[-1].error or "",
                tuple(trial.number for trial in members),
                tuple(sorted({trial.query.level for trial in members})),
                sum((outcome.cost for outcome in outcomes), start=0.0),
            )
        )
    return tuple(sorted(found, key=lambda group: (-len(group.numbers), group.numbers)))
