"""Draw when each trial ran and where."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import plotly.graph_objects as go

from bmbo.ledger import LedgerEntry, shown_owner
from bmbo.report.plot_style import figure_of, level_colours, safe
from bmbo.report.report_data import ReportData

FAILED_COLOUR = "#111827"
MOST_LANES = 64
"""Lanes that the figure shows."""
MOST_LABELS = 40
MOST_TICKS = 4
"""Times along the axis: a telephone has room for no more."""
MOST_ENDS = 200
"""Runs up to which their ends are drawn."""


@dataclass(frozen=True)
class Run:
    """Hold when a trial ran.

    Attributes:
        number: of the trial.
        level: of the trial.
        failed: whether it gave no value.
        begun, ended: local times; a trial that still runs ends now.
    """

    number: int
    level: int
    failed: bool
    begun: datetime
    ended: datetime


@dataclass(frozen=True)
class Lane:
    """Hold the runs of one worker that do not overlap, and the name of the worker."""

    worker: str
    runs: tuple[Run, ...]


def timeline_of(data: ReportData) -> tuple[Lane, ...]:
    """Return the runs of a study, worker by worker; a worker that runs trials side by side has several lanes.

    Trials that took no time, such as added ones, are left out.
    """
    workers: dict[str, list[Run]] = {}
    for entry in data.entries:
        run = _run(entry, data.made)
        if run is not None:
            workers.setdefault(shown_owner(entry.owner) if entry.owner else "unknown", []).append(run)
    lanes: list[Lane] = []
    for worker, runs in sorted(workers.items(), key=lambda item: min(run.begun for run in item[1])):
        lanes.extend(Lane(worker, own) for own in side_by_side(runs))
    return tuple(lanes)


def side_by_side(runs: Sequence[Run]) -> list[tuple[Run, ...]]:
    """Return runs in as few lanes as possible, without an overlap in any lane."""
    lanes: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run.begun, run.number)):
        free = next((lane for lane in lanes if lane[-1].ended <= run.begun), None)
        if free is None:
            lanes.append([run])
        else:
            free.append(run)
    return [tuple(lane) for lane in lanes]


def timeline_figure(data: ReportData, lanes: Sequence[Lane]) -> go.Figure:
    """Return the figure: a row for each lane, a bar for each run, coloured by level."""
    shown = lanes[:MOST_LANES]
    colours = level_colours(data.problem.ladder.num_levels)
    thick = 14 if len(shown) <= 16 else 6
    # A very short run has no length, but its ends are seen. Where there are many runs, ends would hide the others.
    has_ends = sum(len(lane.runs) for lane in shown) <= MOST_ENDS
    traces: list[object] = []
    groups = [*enumerate(data.level_names), (None, "failed")]
    for level, name in groups:
        # One line with gaps: thousands of bars would be slow.
        x: list[datetime | None] = []
        y: list[int | None] = []
        texts: list[str] = []
        for place, lane in enumerate(shown):
            for run in lane.runs:
                if (run.failed and level is None) or (not run.failed and run.level == level):
                    x += [run.begun, run.ended, None]
                    y += [place, place, None]
                    seconds = (run.ended - run.begun).total_seconds()
                    at = safe(data.level_names[run.level])
                    texts += 3 * [f"trial {run.number} at {at}<br>{seconds:.3g} s<br>{safe(lane.worker)}"]
        if x:
            colour = FAILED_COLOUR if level is None else colours[level]
            traces.append(
                go.Scatter(
                    x=x,
                    y=y,
                    mode="lines+markers" if has_ends else "lines",
                    name=safe(name) if level is not None else "failed",
                    line={"color": colour, "width": thick, "simplify": False},
                    marker={"symbol": "line-ns", "size": thick, "line": {"color": colour, "width": 1.5}},
                    hovertext=texts,
                    hoverinfo="text",
                )
            )
    figure = figure_of(traces, 130 + (26 if thick > 6 else 11) * max(len(shown), 2))
    names = [safe(lane.worker, 22) for lane in shown]
    first = [place for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
    labelled = first if len(first) <= MOST_LABELS else first[:: 1 + len(first) // MOST_LABELS]
    figure.update_xaxes(type="date", nticks=MOST_TICKS, tickangle=0)
    figure.update_yaxes(
        tickvals=labelled,
        ticktext=[names[place] for place in labelled],
        range=[len(shown) - 0.5, -0.5],
        zeroline=False,
    )
    return figure


def _run(entry: LedgerEntry, now: datetime) -> Run | None:
    if entry.begun is None or (entry.ended is None and entry.state != "running"):
        return None
    ended = entry.ended or now
    if ended <= entry.begun:
        return None
    return Run(entry.trial.number, entry.trial.query.level, entry.state == "failed", entry.begun, ended)
