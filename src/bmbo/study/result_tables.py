"""Read results from tables: pandas DataFrames, files that `bmbo export` wrote, and Optuna studies."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import optuna

from bmbo.problem import Categorical, Float, Objective, Parameter, Problem
from bmbo.problem.number_checks import short
from bmbo.study.import_export import VALUES, values_by_column

RESULT = ("value", "level", "fidelity", "cost")
"""The columns that say what came out, and where."""

OF_TRIALS = ("number", "state", "error", "seconds", "refunded", "begun", "ended")
OF_RECORDS = ("owner", "batch", "retries", "resume_from", "duplicate_of", "retry_of", "user_attrs")
IGNORED = frozenset({*OF_TRIALS, *OF_RECORDS})
"""Columns that tables of ours have beside them, and that an old result does not need."""

PREFIX = "params_"

MEASURED = "measured_"
"""The beginning of columns with the measured values that constraints limit."""

NOTES = "user_attrs_"
"""The beginning of columns with what users noted on trials, which an old result does not need either."""


def rows_of(source: object, problem: Problem) -> list[Mapping[str, Any]]:
    """Return the results of a table or of an Optuna study, each as the arguments of `old_result`.

    Args:
        source: a DataFrame, the path of a .csv or .json file, or an Optuna study.
        problem: of the study that takes the results.

    Raises:
        TypeError: The source is nothing of that.
        ValueError: The table cannot be read, or its columns do not say what they mean.
    """
    if isinstance(source, optuna.Study):
        finished = source.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        is_single = len(source.directions) == 1
        return [{"params": t.params, "value": t.values[0] if is_single else tuple(t.values)} for t in finished]
    is_text = isinstance(source, str | Path)
    if isinstance(source, str | Path):
        rows = _rows_in(Path(source), problem)
    else:
        to_dict: Any = getattr(source, "to_dict", None)
        if to_dict is None or not hasattr(source, "columns"):
            kind = type(source).__name__
            raise TypeError(f"add_trials takes a pandas DataFrame or a study, got {kind}; or the path of a table")
        rows = to_dict("records")
    if not rows:
        return []
    if problem.objectives:
        rows = [_with_values_together(row, problem.objectives, is_text=is_text) for row in rows]
    limited = {f"{MEASURED}{limit.name}": limit.name for limit in problem.constraints}
    columns = _parameters_of([column for column in rows[0] if column not in limited], problem.space.names)
    # Rows without a value are trials that failed or have not run.
    states = ("complete", None) if "state" in rows[0] and columns.get("state") is None else None
    found: list[Mapping[str, Any]] = []
    for row in rows:
        if states is None or row["state"] in states:
            plain = {column: field for column, field in row.items() if column not in limited}
            made = _row(plain, columns, problem, is_text=is_text)
            if limited:
                measured = {name: row[column] for column, name in limited.items() if column in row}
                made["value"] = made["value"], {n: _number(v) if is_text else v for n, v in measured.items()}
            found.append(made)
    return found


def _with_values_together(row: Mapping[str, Any], objectives: Sequence[Objective], *, is_text: bool) -> dict[str, Any]:
    """Return a row in which `value` holds the values of all objectives, in place of a column for each."""
    columns = [f"{VALUES}{own.name}" for own in objectives]
    missing = [column for column in columns if column not in row]
    if missing:
        raise ValueError(f"the table needs a column {missing[0]!r}, got {list(row)}")
    values = tuple(_number(row[column]) if is_text else row[column] for column in columns)
    known = any(value is not None and value == value for value in values)  # noqa: PLR0124 - NaN differs from itself
    return {
        **{column: field for column, field in row.items() if column not in columns},
        "value": values if known else None,
    }


def _rows_in(path: Path, problem: Problem) -> list[dict[str, Any]]:
    """Return the rows of a file, each with the same columns."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"there is no table {path}") from None
    except OSError as error:
        raise ValueError(f"the table {path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"the table {path} cannot be read: {error}") from None
    try:
        rows = _json_rows(text, problem.objectives) if path.suffix == ".json" else _csv_rows(text, problem.objectives)
    except (csv.Error, ValueError, RecursionError) as error:
        raise ValueError(f"the table {path} cannot be read: {error}") from None
    if problem.space.tree is not None:
        # A JSON file leaves out what does not exist; as a table it has nothing there.
        every = dict.fromkeys(name for row in rows for name in row if name.startswith(PREFIX))
        rows = [{**row, **{name: row.get(name) for name in every}} for row in rows]
    different = [place for place, row in enumerate(rows) if row.keys() != rows[0].keys()]
    if different:
        raise ValueError(f"the table {path} cannot be read: result {different[0]} has other columns than result 0")
    return rows


def _csv_rows(text: str, objectives: Sequence[Objective]) -> list[dict[str, Any]]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    head = next(reader, [])
    if not head:
        raise ValueError("its first line is empty, and should name the columns")
    twice = [name for name in head if head.count(name) > 1]
    if twice:
        raise ValueError(f"it has two columns {twice[0]!r}")
    lines = [line for line in reader if line]
    if not lines and not objectives and "value" not in head:
        raise ValueError(f"it has no results, and its first line names no column 'value': {short(head)}")
    for place, line in enumerate(lines):
        if len(line) != len(head):
            raise ValueError(f"result {place} has {len(line)} fields, and the head has {len(head)}")
    return [{name: field or None for name, field in zip(head, line, strict=True)} for line in lines]


def _json_rows(text: str, objectives: Sequence[Objective]) -> list[dict[str, Any]]:
    found: Any = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in cast(list[Any], found)):
        raise ValueError("it must be a list of objects")
    rows: list[dict[str, Any]] = []
    for row in cast(list[dict[str, Any]], found):
        params = row.pop("params", {})
        if not isinstance(params, dict):
            raise ValueError(f"params must be an object, got {short(params)}")
        # A parameter may be called "measured".
        measured = row.pop("measured") if isinstance(row.get("measured"), dict) else {}
        flat = {**row, **{f"{PREFIX}{name}": value for name, value in cast(dict[str, Any], params).items()}}
        if objectives and isinstance(row.get("values"), list):
            values = flat.pop("values")
            flat |= values_by_column(objectives, values)
        rows.append({**flat, **{f"{MEASURED}{name}": value for name, value in measured.items()}})
    return rows


def _parameters_of(columns: Sequence[object], names: Sequence[str]) -> dict[object, str]:
    """Return the parameter of each column that stands for one; raise ValueError if two stand for the same."""
    found: dict[object, str] = {}
    if "value" not in columns:
        raise ValueError(f"the table needs a column 'value', got {list(columns)}")
    for column in columns:
        plain = str(column).removeprefix(PREFIX)
        is_ours = column in IGNORED or str(column).startswith(NOTES)
        if column in RESULT or (is_ours and (column not in names or f"{PREFIX}{column}" in columns)):
            continue
        # A parameter may have a name that begins with the prefix. A name that is unknown is refused with its row.
        name = plain if plain in names or str(column) not in names else str(column)
        twice = [other for other, known in found.items() if known == name]
        if twice:
            raise ValueError(f"the table has two columns for parameter {name!r}: {twice[0]!r} and {column!r}")
        found[column] = name
    return found


def _row(
    fields: Mapping[str, Any], columns: Mapping[object, str], problem: Problem, *, is_text: bool
) -> dict[str, Any]:
    """Return one row of a table as the arguments of `old_result`."""
    params = dict(problem.space.params)
    row: dict[str, Any] = {"params": {}}
    empty: set[str] = set()
    for column, field in fields.items():
        plain = field.item() if hasattr(field, "item") else field
        name = columns.get(column)
        if name is not None:
            if plain is None or plain == "" or (isinstance(plain, float) and math.isnan(plain)):
                empty.add(name)
            row["params"][name] = _meant(plain, params[name], is_text=is_text) if name in params else plain
        elif column in RESULT:
            # A table has NaN where it has nothing.
            missing = plain is None or (isinstance(plain, float) and math.isnan(plain) and column != "value")
            is_number = is_text and column != "fidelity" and not isinstance(plain, tuple)
            row[column] = None if missing else _number(plain) if is_number else plain
    if problem.space.tree is not None:
        exist = problem.space.tree.existing(row["params"])
        row["params"] = {name: value for name, value in row["params"].items() if name in exist or name not in empty}
    if row.get("fidelity") is not None:
        row["fidelity"] = _choice(row["fidelity"], [own.value for own in problem.ladder.fidelities])
        row.pop("level", None)
    if isinstance(row.get("level"), float) and row["level"].is_integer():
        row["level"] = int(row["level"])
    return row


def _meant(field: Any, param: Parameter, *, is_text: bool) -> Any:
    """Return the value of a parameter that a field of a table stands for; what fits no value stays as it is."""
    if isinstance(param, Categorical):
        return _choice(field, param.choices)
    number = _number(field) if is_text else field
    # pandas makes a column of floats where a field is missing.
    return int(number) if not isinstance(param, Float) and isinstance(number, float) and number.is_integer() else number


def _choice(field: Any, choices: Iterable[Any]) -> Any:
    """Return the choice that is written in a field: itself, or the one with this text."""
    choices = list(choices)
    if field is None or (isinstance(field, float) and math.isnan(field)):
        return None if None in choices else "" if "" in choices else field
    same = [each for each in choices if each == field and isinstance(each, bool) == isinstance(field, bool)]
    written = [each for each in choices if isinstance(field, str) and str(each) == field]
    return (same or written or [field])[0]


def _number(field: Any) -> Any:
    """Return the number that a text stands for, or the field itself."""
    if not isinstance(field, str):
        return field
    for kind in (int, float):
        try:
            return kind(field)
        except ValueError:
            continue
    return field
