"""Format tables and messages that the command line prints for people."""

import math
import sys
from collections.abc import Iterable, Sequence

from bmbo.problem import Ladder
from bmbo.study.short_text import short_text

PROGRAM = "bmbo"
"""The name of the program, also at the start of its messages."""


def text_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as text; columns are as wide as needed, and columns of numbers are aligned to the right."""
    cells = [[short_text(cell) for cell in row] for row in rows]
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


def ladder_table(ladder: Ladder, budget: float | None) -> str:
    """Return a table of the levels, their costs, and how many trials of each level the budget pays for."""
    rows: list[list[object]] = []
    for level, fidelity in enumerate(ladder.fidelities):
        named = fidelity.name if fidelity.name == str(fidelity.value) else f"{fidelity.name} ({fidelity.value})"
        row: list[object] = [level, named, fidelity.cost]
        if budget is not None and not isinstance(fidelity.cost, str):
            row.append(math.floor(budget / fidelity.cost + 1e-9))
        rows.append(row)
    bought = [] if len(rows[0]) == 3 else ["the budget buys"]
    return text_table(["level", "fidelity", "cost", *bought], rows)


def message_line(message: object) -> str:
    """Return a message with the name of the program before it."""
    return f"{PROGRAM}: {message}"


def print_message(message: object) -> None:
    """Print a message with the name of the program before it to stderr."""
    print(message_line(message), file=sys.stderr)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(".", "").replace("-", "").replace("+", "").replace("e", "").isdigit()
