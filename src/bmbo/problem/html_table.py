"""Write a small table of HTML, as notebooks show it."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a title; every cell is shown as text."""

    def row(cells: Sequence[object], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    # No caption, which would be as narrow as the table.
    return f"<p>{escape(title)}</p><table>{row(head, 'th') if head else ''}{body}</table>"
