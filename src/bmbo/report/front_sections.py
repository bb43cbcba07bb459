"""Make the sections about several objectives: the front, and how its hypervolume has grown."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import plotly.graph_objects as go

from bmbo.history import TrialRecord
from bmbo.history.front_volume import reference_of, volume_of, volumes_after
from bmbo.report.plot_style import GREY, INK, figure_of, level_colours, safe
from bmbo.report.report_data import ReportData, short_number, short_value, spread_out
from bmbo.report.section import Section

MOST_DOTS = 1500
"""Dots of a figure: a phone still draws them at once."""
MOST_ROWS = 30
"""Trials of the front that the table shows."""


def front_sections(data: ReportData) -> list[Section]:
    """Return the sections; none before there is a value."""
    if not data.done:
        return []
    pairs = list(combinations(range(data.problem.num_objectives), 2))
    reference = [
        f"{own.label} {short_number(own.sign * float(value))}"
        for own, value in zip(data.problem.objectives, reference_of(data.history), strict=True)
    ]
    head, rows = front_table(data)
    left_out = len(data.history.front) - len(rows)
    return [
        Section(
            "front",
            "The front",
            "The framed dots are trials at the top that no other beats in all objectives. Choose among them. "
            "Where the line has a corner, a little of one objective costs much of the other.",
            tuple(front_figure(data, *pair) for pair in pairs),
            (f"{left_out} more trials of the front are left out of the table.",) if left_out > 0 else (),
            head,
            rows,
            has_columns=len(pairs) > 1,
        ),
        Section(
            "volume",
            "Hypervolume",
            "The room that the front beats, up to the reference point: it should rise early and then become flat.",
            (volume_figure(data),),
            (f"The reference point is {', '.join(reference)}.",),
        ),
    ]


def front_text(data: ReportData) -> str:
    """Return in a sentence how large the front is."""
    num, volume = len(data.history.front), short_number(volume_of(data.history))
    form = "one configuration forms" if num == 1 else f"{num} configurations form"
    return f"At the top fidelity {form} the front: no other is as good in all objectives. Its hypervolume is {volume}."


def front_table(data: ReportData) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the head and the rows of the table of the front, the best first values first."""
    objectives, space = data.problem.objectives, data.problem.space
    rows: list[tuple[str, ...]] = []
    for trial in _ordered(data)[:MOST_ROWS]:
        params = space.decode(trial.query.unit)
        values = tuple(short_number(value) for value in trial.values)
        shown = tuple(short_value(params[name]) if name in params else "-" for name in space.names)
        rows.append((str(trial.number), *values, *shown))
    return ("trial", *(own.label for own in objectives), *space.names) if rows else (), tuple(rows)


def front_figure(data: ReportData, one: int, other: int) -> go.Figure:
    """Return the figure of two of the objectives: dots by level, and the front at the top."""
    ladder, objectives = data.problem.ladder, data.problem.objectives
    colours, numbers = level_colours(ladder.num_levels), {trial.number for trial in data.history.front}
    traces: list[Any] = []
    for level, name in enumerate(data.level_names):
        here = [entry.trial for entry in data.done if entry.trial.query.level == level]
        here = [trial for trial in here if not trial.dropped]
        shown = [here[place] for place in spread_out(len(here), MOST_DOTS)] if here else []
        if shown:
            frames = [2 if trial.number in numbers else 0 for trial in shown]
            size = 9 if level == ladder.top else 6
            marker = {"color": colours[level], "size": size, "line": {"color": INK, "width": frames}}
            traces.append(_dots(data, shown, (one, other), name=safe(name), marker=marker, opacity=0.8))
    ordered = _ordered(data)
    # With more objectives the front is no line in two of them.
    if len(ordered) > 1 and len(objectives) == 2:
        x = [trial.values[one] for trial in ordered]
        y = [trial.values[other] for trial in ordered]
        line = {"color": INK, "width": 1, "dash": "dot"}
        traces.append(go.Scatter(x=x, y=y, mode="lines", name="front", line=line, hoverinfo="skip"))
    figure = figure_of(traces, 420)
    figure.update_xaxes(title={"text": _axis_title(data, one)})
    figure.update_yaxes(title={"text": _axis_title(data, other)})
    return figure


def volume_figure(data: ReportData) -> go.Figure:
    """Return the figure of the hypervolume of the front against the cost."""
    told = [entry.trial for entry in data.told]
    spent = np.cumsum([0.0, *(trial.outcome.cost for trial in told if trial.outcome is not None)])
    volumes = [0.0, *volumes_after(data.history, told)]
    line = {"color": INK, "width": 2, "shape": "hv"}
    figure = figure_of([go.Scatter(x=spent, y=volumes, mode="lines", line=line, showlegend=False)], 320)
    unit = " (seconds)" if data.history.problem.ladder.measured else ""
    figure.update_xaxes(title={"text": f"cost so far{unit}"}, rangemode="tozero")
    figure.update_yaxes(title={"text": "hypervolume"}, rangemode="tozero")
    if data.total_cost is not None and data.total_cost < 2 * max(data.history.spent, 1e-300):
        figure.add_vline(x=data.total_cost, line={"color": GREY, "dash": "dot", "width": 1})
    return figure


def for_each_objective(sections: Sequence[Section], names: Sequence[str]) -> Section:
    """Return one section that shows the figure of each objective, with the name of the objective in it."""
    figures: list[Any] = []
    for section, name in zip(sections, names, strict=True):
        (figure,) = section.figures
        figure.update_layout(title={"text": safe(name), "x": 0.01, "font": {"size": 14}}, margin_t=40)
        figures.append(figure)
    first = sections[0]
    return Section(first.key, first.title, first.look_for, tuple(figures), first.notes, has_columns=True)


def _dots(data: ReportData, trials: Sequence[TrialRecord], pair: tuple[int, int], **look: Any) -> go.Scatter:
    one, other = pair
    return go.Scatter(
        x=[trial.values[one] for trial in trials],
        y=[trial.values[other] for trial in trials],
        mode="markers",
        hovertext=[_hover(data, trial) for trial in trials],
        hoverinfo="text",
        **look,
    )


def _hover(data: ReportData, trial: TrialRecord) -> str:
    values = zip(data.problem.objectives, trial.values, strict=True)
    params = data.problem.space.decode(trial.query.unit)
    return "<br>".join(
        [
            f"trial {trial.number} at {safe(data.level_names[trial.query.level])}",
            *(f"{safe(own.label, 24)} {short_number(value)}" for own, value in values),
            *(f"{safe(name, 24)} = {safe(short_value(value), 24)}" for name, value in list(params.items())[:12]),
        ]
    )


def _ordered(data: ReportData) -> list[TrialRecord]:
    """Return the trials on the front, the best first values first."""
    return sorted(data.history.front, key=data.history.larger_better, reverse=True)


def _axis_title(data: ReportData, place: int) -> str:
    own = data.problem.objectives[place]
    return f"{safe(own.label)} ({'large' if own.maximise else 'small'} is good)"
