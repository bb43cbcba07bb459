"""Take in old results from tables and other studies, and give out all results as a table."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bmbo.history import Outcome, Query
from bmbo.problem import Ladder, Objective, Problem
from bmbo.problem.number_checks import finite_amount, is_whole
from bmbo.study.limits import ADDED
from bmbo.study.returned import as_numbers, outcome_of_returned, parts_of
from bmbo.study.trial import Trial, as_number

VALUES = "values_"
"""The beginning of columns with the values of several objectives."""


def old_result(
    problem: Problem,
    params: Mapping[str, Any],
    value: object,
    *,
    level: object = None,
    fidelity: object = None,
    cost: object = None,
) -> tuple[Query, Outcome]:
    """Return a result that was found elsewhere: at the top unless a level is given, and free unless a cost is given."""
    place = level_of(problem.ladder, level, fidelity)
    price = 0.0 if cost is None else finite_amount("cost", cost)
    seconds = price if problem.ladder.measured else 0.0
    query = Query(problem.space.encode(params), place, {ADDED: True})
    outcome, _ = outcome_of_returned(problem, value, {}, price, seconds)
    if outcome.value is None:
        given = parts_of(value)[0]
        numbers = as_numbers(problem, given) if problem.objectives else (as_number(given),)
        shown = numbers if problem.objectives else numbers[0]
        is_finite = all(map(math.isfinite, numbers))
        raise ValueError(outcome.error if is_finite else f"an old result must have a finite value, got {shown!r}")
    return query, outcome


def old_results(problem: Problem, rows: Iterable[Mapping[str, Any]]) -> list[tuple[Query, Outcome]]:
    """Return many results that were found elsewhere; raise an error that names the row if one does not fit."""
    results: list[tuple[Query, Outcome]] = []
    for place, row in enumerate(rows):
        given = {name: row[name] for name in ("level", "fidelity", "cost") if name in row}
        try:
            results.append(old_result(problem, row["params"], row["value"], **given))
        except (TypeError, ValueError) as error:
            raise type(error)(f"result {place}: {error}; nothing was added") from None
    return results


def with_keys(results: Iterable[tuple[Query, Outcome]]) -> list[tuple[str, Query, Outcome]]:
    """Return results with a key for each: the same for the same result, and another for its second occurrence."""
    seen: Counter[str] = Counter()
    keyed: list[tuple[str, Query, Outcome]] = []
    for query, outcome in results:
        # Further and measured values only where there are any, so that rows keep the keys that they have.
        content = repr((query.unit, query.level, outcome.value, outcome.cost, *outcome.further, *outcome.measured))
        digest = hashlib.sha256(content.encode()).hexdigest()[:32]
        keyed.append((f"{digest}:{seen[digest]}", query, outcome))
        seen[digest] += 1
    return keyed


def level_of(ladder: Ladder, level: object = None, fidelity: object = None) -> int:
    """Return the level of a fidelity that is given by its level, its value or its name; the top if nothing is given."""
    if level is not None and fidelity is not None:
        raise ValueError(f"give a level or a fidelity, not both: got level={level!r} and fidelity={fidelity!r}")
    if fidelity is not None:
        known = [
            place
            for place, own in enumerate(ladder.fidelities)
            if own.name == fidelity
            or (own.value == fidelity and isinstance(own.value, bool) == isinstance(fidelity, bool))
        ]
        if not known:
            values = [own.value for own in ladder.fidelities]
            raise ValueError(f"there is no fidelity {fidelity!r}; the study has {values}")
        return known[0]
    if level is None:
        return ladder.top
    if not is_whole(level) or not 0 <= level <= ladder.top:
        raise ValueError(f"level {level!r} is not one of 0 to {ladder.top}")
    return int(level)


def values_by_column(objectives: Sequence[Objective], values: Sequence[float]) -> dict[str, float | None]:
    """Return the values of several objectives by their columns in a table; nothing for one objective."""
    found = values or (None,) * len(objectives)
    return {f"{VALUES}{own.name}": value for own, value in zip(objectives, found, strict=False)}


def table(trials: Sequence[Trial], objectives: Sequence[Objective] = ()) -> Any:
    """Return all trials as a pandas DataFrame, with parameters in columns params_... and notes in user_attrs_...

    The values of several objectives are in columns values_..., as in Optuna's table.
    """
    # Imported here: pandas is an extra.
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        raise ImportError("trials_dataframe needs pandas: pip install bmbo[pandas]") from None
    fields = ["number", "state", "value", "level", "fidelity", "cost", "seconds", "refunded", "error", "begun", "ended"]
    if any(trial.repeat for trial in trials):
        fields.append("repeat")
    rows = [
        {
            **{name: getattr(trial, name) for name in fields if name != "value" or not objectives},
            **values_by_column(objectives, trial.values),
            **{f"params_{name}": value for name, value in trial.params.items()},
            **{f"measured_{name}": value for name, value in trial.measured.items()},
            **{f"user_attrs_{name}": value for name, value in trial.user_attrs.items()},
        }
        for trial in trials
    ]
    return pd.DataFrame(rows)
