"""Give all figures one look, and make text from users safe to show in them."""

import html
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from bmbo.history.host_observations import Floats
from bmbo.report.parameter_axes import ParameterAxis

TOP_COLOUR = "#c2410c"
BELOW_COLOURS = ("#9ec5e8", "#5b9bd5", "#2a6db0", "#174a7e", "#0b2f57")
GREY, INK, GRID = "#6b7280", "#1f2937", "#e5e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

MOST_LABELS = 16
"""Labels of choices that an axis has room for."""
FEWEST_DECADES, MOST_DECADES = 2.0, 6
"""Powers of ten along a logarithmic axis, from which on nothing else has a tick, and at most with one each."""
FONT_SIZE = 13
POWER_SIZE = 10
"""Plotly draws powers larger than it is told."""
LOG_RATIO = 100.0
"""Ratio of positive values from which an axis of values is logarithmic."""
CUT_RATIO = 3.0
"""Distances from the best value to the worst of the best nine tenths, beyond which the axis leaves a value out."""

EMPTY_TEMPLATE = go.layout.Template()


def level_colours(num_levels: int) -> tuple[str, ...]:
    """Return a colour for each level: blues that darken with the level, and another hue for the top."""
    below = num_levels - 1
    last = min(below, len(BELOW_COLOURS) - 1)
    places = np.linspace(0, last, below).round().astype(int) if below > 1 else [1] * below
    return (*(BELOW_COLOURS[place] for place in places), TOP_COLOUR)


def safe(text: object, most: int = 40) -> str:
    """Return text from a user for a figure: shortened, in one line, and without anything that plotly would obey."""
    line = " ".join(str(text).split())
    return html.escape(line if len(line) <= most else line[: most - 1] + "…", quote=False)


def figure_of(traces: Sequence[Any], height: int = 380, **layout: Any) -> go.Figure:
    """Return a figure in the common style."""
    base: dict[str, Any] = {
        "template": EMPTY_TEMPLATE,
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "font": {"family": FONT, "size": FONT_SIZE, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "font": {"family": FONT}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
    }
    figure = go.Figure(list(traces), layout=base)
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GREY, "automargin": True, "title": {"standoff": 8}}
    figure.update_xaxes(axis)
    figure.update_yaxes(axis)
    figure.update_layout(**layout)
    return figure


def axis_layout(axis: ParameterAxis) -> dict[str, Any]:
    """Return how plotly draws the axis of a parameter."""
    layout: dict[str, Any] = {"title": {"text": safe(axis.name)}}
    if not axis.choices:
        return {**layout, **(_log_ticks(axis.places) if axis.is_log else {"type": "linear"})}
    step = math.ceil(len(axis.choices) / MOST_LABELS)
    shown = list(range(0, len(axis.choices), step))
    return {
        **layout,
        "type": "linear",
        "tickvals": shown,
        "ticktext": [safe(axis.labels[place], 16) for place in shown],
        "range": [-0.5, len(axis.choices) - 0.5],
    }


def _log_ticks(places: Floats) -> dict[str, Any]:
    """Return a logarithmic axis: a tick at each power of ten if it has some, in the size of the other ticks."""
    layout: dict[str, Any] = {"type": "log", "exponentformat": "power"}
    decades = math.log10(float(places.max() / places.min()))
    if decades < FEWEST_DECADES:
        return layout
    return {**layout, "dtick": math.ceil(decades / MOST_DECADES), "tickfont": {"size": POWER_SIZE}}


def value_range(values: Floats, sign: float) -> tuple[Literal["linear", "log"], list[float] | None, int]:
    """Return the scale and the range of an axis of values, and how many values it leaves out.

    A few values that are far worse than all others would press these together, so they are left out.
    """
    if len(values) == 0:
        return "linear", None, 0
    loss = -sign * values
    best, usual = float(loss.min()), float(np.quantile(loss, 0.9))
    if values.min() > 0 and max(best * -sign, usual * -sign) / min(best * -sign, usual * -sign) > LOG_RATIO:
        return "log", None, 0
    is_shown = loss <= best + CUT_RATIO * (usual - best)
    if usual == best or is_shown.all():
        return "linear", None, 0
    worst = float(loss[is_shown].max())
    margin = 0.08 * (worst - best)
    bounds = sorted([-sign * (best - margin), -sign * (worst + margin)])
    return "linear", bounds, int((~is_shown).sum())
