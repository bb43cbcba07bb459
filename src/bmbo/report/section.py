"""Describe one section of the page."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Section:
    """Hold one section of the page.

    Attributes:
        key: a short name without spaces.
        title: of the section.
        look_for: what to look for.
        figures: plotly's.
        names: of the figures, if there are several.
        notes: what else to know.
        head, rows: of a table.
        has_columns: whether several figures may stand side by side.
        is_narrow: whether the figure needs less than the width of the page.
    """

    key: str
    title: str
    look_for: str
    figures: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    has_columns: bool = False
    is_narrow: bool = False
