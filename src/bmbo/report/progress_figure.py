"""Draw the values of the trials and the best one at the top against what was spent."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from bmbo.history.host_observations import Floats, Integers
from bmbo.report.plot_style import GREY, INK, figure_of, level_colours, safe, value_range
from bmbo.report.report_data import ReportData, short_number, short_value, spread_out, values_of

MOST_DOTS = 1500
"""Dots of the figure: a phone still draws them at once."""


@dataclass(frozen=True)
class Progress:
    """Hold the trials with a value, in the order in which they ended.

    Attributes:
        number: of each trial [n].
        level: of each trial [n].
        value: of each trial [n].
        spent: what all trials had cost together when a trial ended [n].
        best: the best value at the top up to then; NaN while there is none [n].
    """

    number: Integers
    level: Integers
    value: Floats
    spent: Floats
    best: Floats


def progress_of(data: ReportData) -> Progress:
    """Return the progress of a study."""
    sign, top = data.problem.sign, data.problem.ladder.top
    costs = np.cumsum([entry.trial.outcome.cost for entry in data.told if entry.trial.outcome is not None])
    spent = np.array([cost for cost, entry in zip(costs, data.told, strict=True) if entry.trial.value is not None])
    level = np.array([entry.trial.query.level for entry in data.done], np.intp)
    value = values_of(data.done)
    kept = np.array([data.history.keeps_constraints(entry.trial) for entry in data.done], np.bool_)
    best = sign * np.maximum.accumulate(np.where((level == top) & kept, sign * value, -np.inf))
    number = np.array([entry.trial.number for entry in data.done], np.intp)
    return Progress(number, level, value, spent.astype(np.float64), np.where(np.isfinite(best), best, np.nan))


def shown_dots(progress: Progress, top: int, most: int = MOST_DOTS) -> Integers:
    """Return the rows that are drawn: those of the top before all others, and every new best."""
    at_top = np.flatnonzero(progress.level == top)
    at_top = at_top[spread_out(len(at_top), (2 * most) // 3)]
    below = np.flatnonzero(progress.level != top)
    below = below[spread_out(len(below), most - len(at_top))]
    return np.union1d(np.concatenate([at_top, below]), new_bests(progress))


def new_bests(progress: Progress) -> Integers:
    """Return the rows in which the best value at the top becomes better."""
    before = np.concatenate([[np.nan], progress.best[:-1]])
    return np.flatnonzero(~np.isnan(progress.best) & ~(progress.best == before))


def progress_figure(data: ReportData, progress: Progress) -> go.Figure:
    """Return the figure: dots by level, a line of the best, and the recommendation."""
    ladder = data.problem.ladder
    shown = shown_dots(progress, ladder.top)
    colours = level_colours(ladder.num_levels)
    size = 8 if len(shown) < 200 else 5
    traces: list[object] = []
    for level, name in enumerate(data.level_names):
        rows = shown[progress.level[shown] == level]
        if len(rows):
            traces.append(
                go.Scatter(
                    x=progress.spent[rows],
                    y=progress.value[rows],
                    mode="markers",
                    name=safe(name),
                    marker={"color": colours[level], "size": size + 2 * (level == ladder.top), "opacity": 0.75},
                    hovertext=[_hover(data, int(progress.number[row])) for row in rows],
                    hoverinfo="text",
                )
            )
    steps = new_bests(progress)
    if len(steps):
        end = data.history.spent
        traces.append(
            go.Scatter(
                x=[*progress.spent[steps], end],
                y=[*progress.best[steps], progress.best[steps[-1]]],
                mode="lines",
                name="best at the top so far",
                line={"color": INK, "width": 2, "shape": "hv"},
                hoverinfo="skip",
            )
        )
    if data.recommendation is not None:
        traces.append(
            go.Scatter(
                x=[data.history.spent],
                y=[data.recommendation.mean],
                error_y={"type": "data", "array": [data.recommendation.std], "color": INK},
                mode="markers",
                name="recommended, as predicted",
                marker={"symbol": "star", "size": 14, "color": "#facc15", "line": {"color": INK, "width": 1}},
            )
        )
    scale, bounds, _ = value_range(progress.value, data.problem.sign)
    x_title = "cost so far (seconds)" if data.history.problem.ladder.measured else "cost so far"
    figure = figure_of(traces, 420)
    figure.update_xaxes(title={"text": x_title}, rangemode="tozero")
    figure.update_yaxes(title={"text": "value"}, type=scale, range=bounds)
    if data.total_cost is not None and data.total_cost < 2 * max(data.history.spent, 1e-300):
        figure.add_vline(x=data.total_cost, line={"color": GREY, "dash": "dot", "width": 1})
    return figure


def hidden_dots(progress: Progress, top: int, sign: float) -> list[str]:
    """Return what the figure leaves out, one sentence each."""
    found: list[str] = []
    shown = len(shown_dots(progress, top))
    if shown < len(progress.value):
        found.append(
            f"{shown} of {len(progress.value)} trials are drawn: the best ones and an even spread of the rest."
        )
    outside = value_range(progress.value, sign)[2]
    if outside:
        found.append(f"{outside} far worse values lie outside the figure; a double click on it shows them.")
    return found


def _hover(data: ReportData, number: int) -> str:
    entry = data.entries[number]
    params = data.problem.space.decode(entry.trial.query.unit)
    shown = [f"{safe(name, 24)} = {safe(short_value(value), 24)}" for name, value in list(params.items())[:12]]
    rest = [f"and {len(params) - len(shown)} more"] if len(params) > len(shown) else []
    head = f"trial {number} at {safe(data.level_names[entry.trial.query.level])}"
    return "<br>".join([head, f"value {short_number(entry.trial.value or 0.0)}", *shown, *rest])
