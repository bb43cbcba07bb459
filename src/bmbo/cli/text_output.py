"""Format tables and messages that the command line prints for people."""

import math
import os
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress

from bmbo.problem import Ladder
from bmbo.problem.spread_levels import has_many, spread_levels
from bmbo.study.short_text import short_text

STDOUT, STDERR = 1, 2
"""The descriptors of every process."""

LONGEST_MESSAGE = 800
"""How many characters of a message are shown."""

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
    shown = spread_levels(ladder) if has_many(ladder.num_levels) else range(ladder.num_levels)
    for level in shown:
        fidelity = ladder[level]
        named = fidelity.name if fidelity.name == str(fidelity.value) else f"{fidelity.name} ({fidelity.value})"
        row: list[object] = [level, named, fidelity.cost]
        if budget is not None and not isinstance(fidelity.cost, str):
            row.append(math.floor(budget / fidelity.cost + 1e-9))
        rows.append(row)
    bought = [] if len(rows[0]) == 3 else ["the budget buys"]
    left_out = ladder.num_levels - len(rows)
    more = f"\n  {left_out} more levels between these" if left_out else ""
    return text_table(["level", "fidelity", "cost", *bought], rows) + more


def message_line(message: object) -> str:
    """Return a message in one line, with the name of the program before it.

    Characters that cannot be printed are written as escapes, because some of them control a terminal. The middle of a
    very long message is left out.
    """
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(message))
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[: LONGEST_MESSAGE // 2]} ... {text[-LONGEST_MESSAGE // 2 :]}"
    return f"{PROGRAM}: {text}"


def print_message(message: object) -> None:
    """Print a message with the name of the program before it to stderr."""
    print(message_line(message), file=sys.stderr)


@contextmanager
def prints_go_to_stderr() -> Generator[None, None, None]:
    """Send to standard error what this process, its libraries and its children print inside this context."""
    sys.stdout.flush()
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))
        # Children, and libraries in C, know nothing of Python's streams. A process may have closed its own.
        with suppress(OSError):
            kept = os.dup(STDOUT)
            os.dup2(STDERR, STDOUT)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, STDOUT)
        yield


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(".", "").replace("-", "").replace("+", "").replace("e", "").isdigit()
