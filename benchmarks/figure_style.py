"""Give matplotlib figures a common style, and turn them into SVG text that is the same for the same data.

`calibration.py` and the reports of `experiments` share this file.
"""

import io
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31")
"""Colours that colour-blind readers can tell apart (Okabe and Ito). The last one replaces their yellow, which is hard
to see on white."""

STYLE: dict[Any, Any] = {
    # Identifiers in the file come from this text and not from random numbers.
    "svg.hashsalt": "bmbo",
    # Text stays text: the file is small and can be searched.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    # The first font measures the text. Verdana has about the same widths where DejaVu Sans is missing.
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#808080",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.8,
    "xtick.color": "#808080",
    "xtick.labelcolor": "black",
    "ytick.color": "#808080",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "path.simplify": True,
    "path.simplify_threshold": 0.3,
}

COORDINATES = re.compile(r'(?<=\s)(?:d|x|y)="[^"]*"')
"""Attributes of an SVG file that hold coordinates."""

NUMBER = re.compile(r"-?\d+\.\d+")


@contextmanager
def drawing() -> Generator[None]:
    """Apply the common style to the figures that are made and written inside the block."""
    with mpl.rc_context(STYLE):
        yield


def svg_text(figure: Figure, title: str) -> str:
    """Return a figure as SVG without date and version, so that the same data give the same bytes.

    Coordinates have one decimal: a tenth of a point cannot be seen, and matplotlib's six decimals double the file.
    """
    content = io.StringIO()
    figure.savefig(content, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return COORDINATES.sub(lambda found: NUMBER.sub(_short, found[0]), content.getvalue())


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")
