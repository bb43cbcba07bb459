"""Draw the figures of a report with matplotlib: lines with bands, and points with intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from benchmarks.figure_style import COLOURS, drawing, svg_text

Floats = NDArray[np.float64]

Dash = Literal["solid"] | tuple[float, tuple[float, ...]]

DASHES: tuple[Dash, ...] = ("solid", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))

PANEL_WIDTH, PANEL_HEIGHT, LEGEND_WIDTH, LEGEND_STEP = 3.9, 3.4, 1.8, 0.19
"""Inches. A legend entry takes one step."""

NUM_HEIGHTS = 300
"""Different heights that a curve may have. A panel has about as many pixels, so that no step is lost to the eye."""

FEW_DECADES = 2
"""On fewer decades than this, powers of ten are too few ticks to read a value by."""


@dataclass(frozen=True)
class Style:
    """Describe how a method looks. It is the same in every figure of a report."""

    colour: str
    dash: Dash
    bold: bool = False

    @classmethod
    def of(cls, place: int, bold: bool = False) -> "Style":
        """Return the style of the method at a place. All colours are used before the next dash."""
        return cls(COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)], bold)

    @property
    def width(self) -> float:
        """Return the width of the line in points."""
        return 2.2 if self.bold else 1.2


@dataclass(frozen=True)
class Line:
    """Hold a median and its quartiles over x. They are infinite where there is no value."""

    name: str
    x: Floats
    low: Floats
    middle: Floats
    high: Floats
    style: Style


@dataclass(frozen=True)
class Panel:
    """Describe axes with lines. The y axis is logarithmic if `log` is true."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log: bool = True


def curves_svg(title: str, panels: Sequence[Panel]) -> str:
    """Return an SVG text of the panels side by side, with one legend."""
    names = {line.name: line.style for panel in panels for line in panel.lines}
    size = (len(panels) * PANEL_WIDTH + LEGEND_WIDTH, max(PANEL_HEIGHT, LEGEND_STEP * len(names) + 0.4))
    with drawing():
        made = Figure(figsize=size, layout="constrained")
        for axes, panel in zip(made.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_panel(axes, panel)
        handles = [
            Line2D([], [], color=style.colour, linestyle=style.dash, linewidth=style.width) for style in names.values()
        ]
        made.legend(handles, list(names), loc="outside right upper", handlelength=2.8, labelspacing=0.35)
        return svg_text(made, title)


def intervals_svg(
    title: str,
    x_label: str,
    rows: Sequence[tuple[str, float, float, float]],
    styles: Mapping[str, Style],
    *,
    log: bool = False,
) -> str:
    """Return an SVG text with one row for each (name, low, middle, high): a point and its interval."""
    with drawing():
        made = Figure(figsize=(6.5, 0.22 * len(rows) + 0.8), layout="constrained")
        axes = made.subplots()
        for place, (name, low, middle, high) in enumerate(rows):
            style = styles[name]
            axes.plot([low, high], [place, place], color=style.colour, linewidth=style.width)
            axes.plot([middle], [place], marker="o", markersize=5.5 if style.bold else 4.5, color=style.colour)
        axes.set_yticks(range(len(rows)), [row[0] for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(x_label)
        if log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        return svg_text(made, title)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    low, high = _limits(panel)
    if panel.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        if math.log10(high / low) < FEW_DECADES:
            axes.yaxis.set_major_locator(MaxNLocator(6))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            axes.yaxis.set_major_locator(LogLocator(numticks=8))
    for line in panel.lines:
        _draw_line(axes, line, low, high, panel.log)
    axes.set_ylim(low, high)
    axes.set_xlim(min(float(line.x[0]) for line in panel.lines), max(float(line.x[-1]) for line in panel.lines))
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)


def _limits(panel: Panel) -> tuple[float, float]:
    """Return the ends of the y axis: the range of all medians and a margin."""
    every = np.concatenate([line.middle for line in panel.lines])
    seen = every[np.isfinite(every) & ((every > 0) | (not panel.log))]
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.1, 1.0)
    if panel.log:
        margin = (high / low) ** 0.04 if high > low else 2.0
        return low / margin, high * margin
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def _draw_line(axes: Axes, line: Line, low: float, high: float, log: bool) -> None:
    """Draw the median as steps and the band between the quartiles, where the median is finite."""
    shown = np.isfinite(line.middle)
    if not shown.any():
        return
    x = line.x[shown]
    # An infinite quartile, and a loss of zero on a logarithmic axis, are drawn to the edge.
    lower, upper = (_rounded(np.clip(each[shown], low, high), low, high, log) for each in (line.low, line.high))
    middle = _rounded(np.clip(line.middle[shown], low, high), low, high, log)
    order = 3 if line.style.bold else 2
    kept = _corners(lower, upper)
    axes.fill_between(x[kept], lower[kept], upper[kept], step="post", color=line.style.colour, alpha=0.07, linewidth=0)
    kept = _corners(middle)
    axes.plot(
        x[kept],
        middle[kept],
        drawstyle="steps-post",
        zorder=order,
        color=line.style.colour,
        linestyle=line.style.dash,
        linewidth=line.style.width,
    )


def _rounded(values: Floats, low: float, high: float, log: bool) -> Floats:
    """Return the values moved to the nearest of `NUM_HEIGHTS` heights of the axis, so that curves have few corners."""
    heights = np.geomspace(low, high, NUM_HEIGHTS) if log else np.linspace(low, high, NUM_HEIGHTS)
    places = (np.log(values / low) / np.log(high / low)) if log else (values - low) / (high - low)
    return heights[np.rint(np.clip(places, 0, 1) * (NUM_HEIGHTS - 1)).astype(int)]


def _corners(*curves: Floats) -> NDArray[np.intp]:
    """Return the places at which one of the step curves changes, and the two ends."""
    changes = np.any([np.diff(each) != 0 for each in curves], axis=0)
    return np.unique(np.concatenate([[0], np.flatnonzero(changes) + 1, [len(curves[0]) - 1]]))
