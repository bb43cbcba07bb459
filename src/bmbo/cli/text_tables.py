"""What the command line prints: tables and sentences for people."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bmbo.problem import Ladder


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as they need to be; numbers to the right."""
    cells = [[text(cell) for cell in row] for row in rows]
    columns = list(zip(*([list(head), *cells]), strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [all(_is_number(cell) for cell in column[1:]) for column in columns]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in [list(head), *cells]
    ]
    return "\n".join(f"  {line}" for line in lines)


def text(value: object) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def configuration(params: Mapping[str, Any]) -> str:
    """A configuration in one line."""
    return ", ".join(f"{name}={text(value)}" for name, value in params.items())


def duration(seconds: float) -> str:
    """A length of time to two places: 35 s, 4 min 10 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    for size, unit, smaller, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {part}"
    return f"{whole} s"


def levels(ladder: Ladder, left: float | None) -> str:
    """The ladder, and what a budget buys of each level."""
    rows: list[list[object]] = []
    for level, fidelity in enumerate(ladder.fidelities):
        named = fidelity.name if fidelity.name == str(fidelity.value) else f"{fidelity.name} ({fidelity.value})"
        row: list[object] = [level, named, fidelity.cost]
        if left is not None and not isinstance(fidelity.cost, str):
            row.append(math.floor(left / fidelity.cost + 1e-9))
        rows.append(row)
    bought = [] if len(rows[0]) == 3 else ["the budget buys"]
    return table(["level", "fidelity", "cost", *bought], rows)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(".", "").replace("-", "").replace("+", "").replace("e", "").isdigit()
