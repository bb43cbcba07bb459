"""Draw the figures of a report with matplotlib: lines with bands, and points with intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from benchmarks.figure_style import COLOURS, drawing, svg_text

Floats = NDArray[np.float64]

WIDTH, HEIGHT = 7.2, 4.2
"""Inches of a figure with curves."""

NUM_HEIGHTS = 300
"""Different heights that a curve may have. A panel has about as many pixels, so that no step is lost to the eye."""

FEW_DECADES = 2
"""On fewer decades than this, powers of ten are too few ticks to read a value by."""


LABEL_STEP = 0.055
"""Least distance between two names at the ends of lines, as a part of the height of the axes."""

GREY = "#cfcfcf"


@dataclass(frozen=True)
class Style:
    """Describe how a method looks in a figure. Methods that a figure is not about are grey and without a name."""

    colour: str = GREY
    dashed: bool = False
    bold: bool = False

    @property
    def is_named(self) -> bool:
        """Return whether the line has its name at its end."""
        return self.colour != GREY

    @property
    def width(self) -> float:
        """Return the width of the line in points."""
        return 2.4 if self.bold else 1.6 if self.is_named else 0.9


def styles_of(names: Sequence[str], own: str | None, rivals: Sequence[str], random: str) -> dict[str, Style]:
    """Return how methods look: ours is bold, its best rivals and random search have colours, and the rest is grey."""
    chosen = {name: Style(colour) for name, colour in zip(rivals, COLOURS[1:], strict=False)}
    chosen[random] = Style("#000000", dashed=True)
    if own is not None:
        chosen[own] = Style(COLOURS[0], bold=True)
    return {name: chosen.get(name, Style()) for name in names}


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
    """Describe axes with lines. The title is the message. The y axis is logarithmic if `log` is true."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log: bool = True


def curves_svg(panel: Panel) -> str:
    """Return an SVG text of curves, with the names of those in colour at their ends."""
    with drawing():
        made = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        _draw_panel(made.subplots(), panel)
        return svg_text(made, panel.title)


def intervals_svg(
    title: str,
    x_label: str,
    rows: Sequence[tuple[str, float, float, float]],
    styles: Mapping[str, Style],
    *,
    log: bool = False,
) -> str:
    """Return an SVG text with one row for each (name, low, middle, high): a point and its interval.

    The title is the message.
    """
    with drawing():
        made = Figure(figsize=(6.5, 0.22 * len(rows) + 1.1), layout="constrained")
        axes = made.subplots()
        made.suptitle(title, x=0.01, horizontalalignment="left", fontsize=mpl.rcParams["axes.titlesize"])
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
    for line in sorted(panel.lines, key=lambda each: (each.style.is_named, each.style.bold)):
        _draw_line(axes, line, low, high, panel.log)
    axes.set_ylim(low, high)
    axes.set_xlim(min(float(line.x[0]) for line in panel.lines), max(float(line.x[-1]) for line in panel.lines))
    axes.set_title(panel.title, loc="left")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    _name_ends(axes, panel, low, high)


def _name_ends(axes: Axes, panel: Panel, low: float, high: float) -> None:
    """Write the names of the lines in colour beside their ends, moved apart where they would overlap."""

    def height(value: float) -> float:
        value = min(max(value, low), high)
        return math.log(value / low) / math.log(high / low) if panel.log else (value - low) / (high - low)

    named = [line for line in panel.lines if line.style.is_named and np.isfinite(line.middle[-1])]
    named.sort(key=lambda line: height(float(line.middle[-1])))
    places = spread([height(float(line.middle[-1])) for line in named], LABEL_STEP)
    for line, place in zip(named, places, strict=True):
        axes.text(
            1.015,
            place,
            line.name,
            transform=axes.transAxes,
            color=line.style.colour,
            fontweight="bold" if line.style.bold else "normal",
            verticalalignment="center",
        )


def spread(heights: Sequence[float], step: float) -> list[float]:
    """Return rising heights moved apart to at least a step, those that touch together around their mean."""
    groups: list[list[float]] = []
    for each in heights:
        groups.append([each])
        while len(groups) > 1 and _lowest(groups[-1], step) - _highest(groups[-2], step) < step * (1 - 1e-9):
            last = groups.pop()
            groups[-1] += last
    return [_lowest(group, step) + place * step for group in groups for place in range(len(group))]


def _lowest(group: Sequence[float], step: float) -> float:
    return sum(group) / len(group) - step * (len(group) - 1) / 2


def _highest(group: Sequence[float], step: float) -> float:
    return _lowest(group, step) + step * (len(group) - 1)


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
    """Draw the median as steps where it is finite and, unless it is grey, the band between the quartiles."""
    shown = np.isfinite(line.middle)
    if not shown.any():
        return
    x = line.x[shown]
    # An infinite quartile, and a loss of zero on a logarithmic axis, are drawn to the edge.
    lower, upper = (_rounded(np.clip(each[shown], low, high), low, high, log) for each in (line.low, line.high))
    middle = _rounded(np.clip(line.middle[shown], low, high), low, high, log)
    if line.style.is_named:
        kept = _corners(lower, upper)
        axes.fill_between(
            x[kept], lower[kept], upper[kept], step="post", color=line.style.colour, alpha=0.08, linewidth=0
        )
    kept = _corners(middle)
    axes.plot(
        x[kept],
        middle[kept],
        drawstyle="steps-post",
        color=line.style.colour,
        linestyle="dashed" if line.style.dashed else "solid",
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
