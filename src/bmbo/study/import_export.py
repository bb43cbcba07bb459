"""Take in old results from tables and other studies, and give out all results as a table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import optuna

from bmbo.history import Outcome, Query
from bmbo.problem import Ladder, Problem
from bmbo.problem.number_checks import finite_amount, is_whole
from bmbo.study.limits import ADDED
from bmbo.study.trial import Trial, as_number


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
    number = as_number(value)
    outcome = Outcome.of(number, price, seconds)
    if outcome.value is None:
        raise ValueError(f"an old result must have a finite value, got {number!r}")
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


def rows_of(source: object) -> Iterable[Mapping[str, Any]]:
    """Return the results of a table or of an Optuna study, each as the arguments of `old_result`."""
    if isinstance(source, optuna.Study):
        finished = source.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        return [{"params": trial.params, "value": trial.value} for trial in finished]
    to_dict: Any = getattr(source, "to_dict", None)
    if to_dict is None or not hasattr(source, "columns"):
        raise TypeError(f"add_trials takes a pandas DataFrame or a study, got {type(source).__name__}")
    return [_row(fields) for fields in to_dict("records")]


def _row(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return one row of a table as the arguments of `old_result`."""
    known = {"value", "level", "fidelity", "cost"}
    # Columns that trials_dataframe writes and that an old result does not need.
    ignored = {"number", "state", "error", "seconds", "refunded", "begun", "ended"}
    row: dict[str, Any] = {"params": {}}
    for name, field in fields.items():
        plain = field.item() if hasattr(field, "item") else field
        if name in known:
            # A table has NaN where it has nothing.
            row[name] = None if isinstance(plain, float) and math.isnan(plain) and name != "value" else plain
        elif name not in ignored:
            row["params"][str(name).removeprefix("params_")] = plain
    if "level" in row and "fidelity" in row:
        del row["level"]
    if "value" not in row:
        raise ValueError(f"the table needs a column 'value', got {list(fields)}")
    if isinstance(row.get("level"), float) and row["level"].is_integer():
        row["level"] = int(row["level"])
    return row


def table(trials: Sequence[Trial]) -> Any:
    """Return all trials as a pandas DataFrame, with parameters in columns params_..."""
    # Imported here: pandas is an extra.
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        raise ImportError("trials_dataframe needs pandas: pip install pandas") from None
    fields = ("number", "state", "value", "level", "fidelity", "cost", "seconds", "refunded", "error", "begun", "ended")
    rows = [
        {
            **{name: getattr(trial, name) for name in fields},
            **{f"params_{name}": value for name, value in trial.params.items()},
        }
        for trial in trials
    ]
    return pd.DataFrame(rows)
