"""Say what the dashboard shows of a trial: attributes with short names, and values level by level."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import shown_owner
from bmbo.ledger.marks import Marks
from bmbo.problem import Ladder

LONGEST_ERROR = 200


def shown_trial(stored: FrozenTrial, ladder: Ladder, marks: Marks) -> FrozenTrial:
    """Return a trial as the dashboard shows it; the stored one stays as it is.

    A dropped trial is shown as failed, so that it is never the best one.
    """
    shown = copy.copy(stored)
    level = _level(stored, ladder)
    shown.user_attrs = _short_attributes(stored.user_attrs, ladder, level)
    if stored.number in marks.dropped:
        shown.user_attrs["dropped"] = True
        if stored.state.is_finished():
            shown.state, shown.values = TrialState.FAIL, None
            shown.intermediate_values = {}
    elif stored.values and len(stored.values) == 1:
        shown.intermediate_values = {level: stored.values[0]}
    return shown


def with_climbs(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """Return trials whose intermediate values are those of their configuration, from the lowest level to their own.

    The figure of intermediate values then shows each configuration as a line that climbs the levels.
    """
    climbed: list[FrozenTrial] = []
    values: dict[tuple[Any, ...], dict[int, float]] = {}
    for trial in trials:
        if not trial.intermediate_values:
            climbed.append(trial)
            continue
        known = values.setdefault(tuple(sorted((name, repr(value)) for name, value in trial.params.items())), {})
        known.update(trial.intermediate_values)
        (level,) = trial.intermediate_values
        shown = copy.copy(trial)
        shown.intermediate_values = {below: known[below] for below in sorted(known) if below <= level}
        climbed.append(shown)
    return climbed


def _level(stored: FrozenTrial, ladder: Ladder) -> int:
    """Return the level of a trial; one that Optuna queued or added has none, and counts as one at the top."""
    return int(stored.user_attrs.get(keys.LEVEL, ladder.top))


def _short_attributes(attributes: Mapping[str, Any], ladder: Ladder, level: int) -> dict[str, Any]:
    """Return what a reader of the dashboard may want to know, without what only bmbo needs."""
    shown = {name: value for name, value in attributes.items() if not name.startswith(keys.PREFIX)}
    shown |= {"fidelity": ladder[level].value, "level": level}
    for key in (keys.COST, keys.BATCH, keys.RETRY_OF, keys.DUPLICATE_OF, keys.RESUME_FROM):
        if attributes.get(key) is not None:
            shown[key.removeprefix(keys.PREFIX)] = attributes[key]
    shown |= attributes.get(keys.MEASURED) or {}
    if attributes.get(keys.SECONDS):
        shown["seconds"] = round(float(attributes[keys.SECONDS]), 3)
    if attributes.get(keys.RETRIES):
        shown["retries"] = attributes[keys.RETRIES]
    if attributes.get(keys.OWNER) is not None:
        shown["worker"] = shown_owner(str(attributes[keys.OWNER]))
    if attributes.get(keys.ERROR) is not None:
        line = " ".join(str(attributes[keys.ERROR]).split())
        shown["error"] = line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 1] + "…"
    return shown
