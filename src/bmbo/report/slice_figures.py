"""Draw what the model expects at the top: importances, slices of one parameter, and pairs of parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from bmbo.history.host_observations import Floats
from bmbo.ledger import LedgerEntry
from bmbo.report.model_view import Band, ModelView
from bmbo.report.parameter_axes import ParameterAxis, axis_of
from bmbo.report.plot_style import GREY, INK, TOP_COLOUR, axis_layout, figure_of, safe, value_range
from bmbo.report.report_data import ReportData, short_number, spread_out, values_of

MOST_BARS = 15
NUM_SLICES, NUM_PAIRED = 6, 3
SLICE_PLACES, PAIR_PLACES = 41, 25
MOST_DOTS = 300
MOST_BEST = 60
"""Trials that are drawn over a pair: more would hide it."""
STAR = {"symbol": "star", "size": 13, "color": "#facc15", "line": {"color": INK, "width": 1}}


@dataclass(frozen=True)
class Slice:
    """Hold what is predicted at the top while one parameter moves and the others stay."""

    axis: ParameterAxis
    band: Band
    centre: float


@dataclass(frozen=True)
class Pair:
    """Hold what is predicted at the top while two parameters move: means [second first]."""

    first: ParameterAxis
    second: ParameterAxis
    mean: Floats
    centre: tuple[float, float]


def slice_of(view: ModelView, centre: Sequence[float], name: str) -> Slice:
    """Return the slice of a parameter through a point."""
    axis = axis_of(view.problem.space, name, SLICE_PLACES)
    return Slice(axis, view.at_top(axis.through(centre)), axis.place(view.problem.space.decode(centre)[name]))


def pair_of(view: ModelView, centre: Sequence[float], names: tuple[str, str]) -> Pair:
    """Return the pair of two parameters through a point."""
    first, second = (axis_of(view.problem.space, name, PAIR_PLACES) for name in names)
    points = second.through(centre).repeat(len(first.units), axis=0)
    points[:, first.block] = first.through(centre)[:, first.block][list(range(len(first.units))) * len(second.units)]
    mean = view.at_top(points).mean.reshape(len(second.units), len(first.units))
    config = view.problem.space.decode(centre)
    return Pair(first, second, mean, (first.place(config[names[0]]), second.place(config[names[1]])))


def importance_figure(importance: Mapping[str, float]) -> go.Figure:
    """Return the figure: a bar for each of the most important parameters."""
    shown = list(importance.items())[:MOST_BARS]
    places = list(range(len(shown)))
    bar = go.Bar(
        y=places,
        x=[100 * share for _, share in shown],
        orientation="h",
        marker={"color": TOP_COLOUR},
        text=[f"{share:.0%}" for _, share in shown],
        textposition="auto",
        textangle=0,
        hoverinfo="skip",
    )
    figure = figure_of([bar], 70 + 28 * max(len(shown), 2), showlegend=False)
    figure.update_xaxes(ticksuffix=" %", rangemode="tozero")
    figure.update_yaxes(tickvals=places, ticktext=[safe(name, 24) for name, _ in shown], autorange="reversed")
    return figure


def common_range(data: ReportData, found: Sequence[Slice]) -> list[float]:
    """Return one range of values for all slices, so that they can be compared.

    The predictions and the best value set it. Other trials may lie outside.
    """
    best = data.history.best
    known = [] if best is None or best.value is None else [best.value]
    low = min([*known, *(float(each.band.low.min()) for each in found)])
    high = max([*known, *(float(each.band.high.max()) for each in found)])
    margin = 0.08 * (high - low) or 1.0
    return [low - margin, high + margin]


def slice_figure(data: ReportData, found: Slice, bounds: Sequence[float]) -> go.Figure:
    """Return the figure: the mean with a band of one deviation, and the trials at the top as dots."""
    axis, band = found.axis, found.band
    mode = "lines+markers" if axis.choices or len(axis.places) <= 12 else "lines"
    having = _having(data, data.at_top, axis.name)
    seen = [having[place] for place in spread_out(len(having), MOST_DOTS)]
    traces = [
        go.Scatter(
            x=[*axis.places, *axis.places[::-1]],
            y=[*band.high, *band.low[::-1]],
            mode="lines",
            fill="toself",
            fillcolor="rgba(194, 65, 12, 0.15)",
            line={"width": 0},
            hoverinfo="skip",
        ),
        go.Scatter(
            x=_places(data, seen, axis),
            y=values_of(seen),
            mode="markers",
            marker={"color": GREY, "size": 5, "opacity": 0.5},
            hovertext=[f"trial {entry.trial.number}<br>{short_number(entry.trial.value or 0.0)}" for entry in seen],
            hoverinfo="text",
        ),
        go.Scatter(
            x=axis.places,
            y=band.mean,
            mode=mode,
            line={"color": TOP_COLOUR, "width": 2},
            hovertext=[_predicted(band, place) for place in range(len(axis.places))],
            hoverinfo="text",
        ),
    ]
    figure = figure_of(traces, 280, showlegend=False)
    figure.update_xaxes(axis_layout(axis))
    figure.update_yaxes(title={"text": "value at the top"}, range=list(bounds))
    figure.add_vline(x=found.centre, line={"color": INK, "dash": "dot", "width": 1})
    return figure


def pair_figure(data: ReportData, found: Pair) -> go.Figure:
    """Return the figure: the mean as colours, the trials at the top as dots, and the recommendation as a star."""
    sign = data.problem.sign
    having = _having(data, _having(data, data.at_top, found.first.name), found.second.name)
    seen = sorted(having, key=lambda entry: -sign * (entry.trial.value or 0.0))[:MOST_BEST]
    smooth = not (found.first.choices or found.second.choices)
    surface: Any = go.Contour if smooth else go.Heatmap
    more: dict[str, Any] = {"ncontours": 18, "line": {"width": 0.4}} if smooth else {}
    scale, bounds, _ = value_range(found.mean.ravel(), sign)
    if bounds is not None and scale == "linear":
        low, high = bounds
        more |= {"zmin": low, "zmax": high}
        if smooth:
            more["contours"] = {"start": low, "end": high, "size": (high - low) / 18}
    traces = [
        surface(
            x=found.first.places,
            y=found.second.places,
            z=found.mean,
            colorscale="Cividis_r" if data.problem.maximise else "Cividis",
            colorbar={"thickness": 10, "len": 0.9},
            hoverinfo="x+y+z",
            **more,
        ),
        go.Scatter(
            x=_places(data, seen, found.first),
            y=_places(data, seen, found.second),
            mode="markers",
            marker={"color": "white", "size": 6, "line": {"color": INK, "width": 1}},
            hovertext=[f"trial {entry.trial.number}<br>{short_number(entry.trial.value or 0.0)}" for entry in seen],
            hoverinfo="text",
        ),
        go.Scatter(x=[found.centre[0]], y=[found.centre[1]], mode="markers", marker=STAR, hoverinfo="skip"),
    ]
    figure = figure_of(traces, 320, showlegend=False)
    figure.update_xaxes(axis_layout(found.first))
    figure.update_yaxes(axis_layout(found.second))
    return figure


def _having(data: ReportData, entries: Sequence[LedgerEntry], name: str) -> Sequence[LedgerEntry]:
    """Return the trials whose configuration has a parameter."""
    if data.problem.space.tree is None:
        return entries
    return [entry for entry in entries if name in data.problem.space.decode(entry.trial.query.unit)]


def _places(data: ReportData, entries: Sequence[LedgerEntry], axis: ParameterAxis) -> list[float]:
    return [axis.place(data.problem.space.decode(entry.trial.query.unit)[axis.name]) for entry in entries]


def _predicted(band: Band, place: int) -> str:
    low, high = short_number(band.low[place]), short_number(band.high[place])
    return f"{short_number(band.mean[place])}<br>{low} to {high}"
