"""Read what an objective returned or a user told: a number for each objective, and what was measured beside it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bmbo.history import Outcome
from bmbo.problem import Constraint, Problem
from bmbo.problem.number_checks import short
from bmbo.study.trial import as_number
from bmbo.study.user_attributes import checked_attribute

_EXAMPLE = 'return value, {"memory_gb": 11.2}'


def outcome_of_returned(
    problem: Problem, returned: object, noted: Mapping[str, Any], cost: float, seconds: float
) -> tuple[Outcome, Mapping[str, Any]]:
    """Return the outcome of a run, and what is to be noted on its trial.

    An objective returns a number, or a number and a mapping of what it measured. With several objectives, a tuple or a
    list of numbers takes the place of the number. A measured value that the problem
    limits belongs to the outcome, also if it was noted on the trial; everything else is noted.

    Args:
        problem: of the study.
        returned: by the objective.
        noted: on the trial by the objective.
        cost: of the run.
        seconds: that it took.

    Raises:
        TypeError: The value is no real number, there is not one for each objective, or what was measured cannot be
            noted.
    """
    value, measured = parts_of(returned)
    if problem.objectives:
        outcome = Outcome.of_several(as_numbers(problem, value), cost, seconds)
    else:
        outcome = Outcome.of(as_number(value), cost, seconds)
    limited = {limit.name for limit in problem.constraints}
    more = {key: checked_attribute(key, each) for key, each in measured.items() if key not in limited}
    notes = {key: each for key, each in {**noted, **more}.items() if key not in limited}
    if outcome.value is None:
        return outcome, notes
    found: list[float] = []
    for limit in problem.constraints:
        number = _measured(limit, {**noted, **measured})
        if isinstance(number, str):
            return Outcome(None, cost, seconds, error=number), notes
        found.append(number)
    return replace(outcome, measured=tuple(found)), notes


def parts_of(returned: object) -> tuple[object, Mapping[Any, Any]]:
    """Return the value and what was measured beside it."""
    if isinstance(returned, tuple) and len(cast(tuple[Any, ...], returned)) == 2:
        value, beside = cast(tuple[Any, Any], returned)
        if isinstance(beside, Mapping):
            return value, cast(Mapping[Any, Any], beside)
    return returned, {}


def as_numbers(problem: Problem, value: object) -> tuple[float, ...]:
    """Return the values of several objectives; raise TypeError unless there is a real number for each."""
    names = [each.label for each in problem.objectives]
    listed = list(cast(Iterable[Any], value)) if isinstance(value, list | tuple | np.ndarray) else None
    if listed is None or len(listed) != len(names):
        raise TypeError(
            f"an objective of this study must return {len(names)} numbers, for {', '.join(names)}, got {short(value)}"
        )
    return tuple(map(as_number, listed))


def _measured(limit: Constraint, measured: Mapping[Any, Any]) -> float | str:
    """Return the measured value that a constraint limits, or why there is none."""
    if limit.name not in measured:
        given = f"only {short(sorted(map(str, measured)))}" if measured else "nothing"
        return f"{limit.name!r} is missing, which the constraint {limit} needs: {_EXAMPLE}; measured was {given}"
    given = measured[limit.name]
    try:
        outcome = Outcome.of(as_number(given), 0.0)
    except TypeError:
        return f"{limit.name!r} must be a real number for the constraint {limit}, got {short(given)}"
    if outcome.value is None:
        return f"{limit.name!r} must be finite for the constraint {limit}, got {short(given)}"
    return outcome.value
