"""Draw where the money went: cost and number of trials by level."""

from dataclasses import dataclass

import plotly.graph_objects as go

from bmbo.history.shown_levels import shown_levels
from bmbo.report.plot_style import GREY, INK, figure_of, level_colours, safe
from bmbo.report.report_data import ReportData, short_number


@dataclass(frozen=True)
class Spending:
    """Hold what each shown level had, the roughest first.

    Attributes:
        levels: the levels.
        cost: of all trials, failed ones included.
        trials: with an outcome.
        failed: of these trials.
        in_flight: trials that wait or run.
    """

    levels: tuple[int, ...]
    cost: tuple[float, ...]
    trials: tuple[int, ...]
    failed: tuple[int, ...]
    in_flight: tuple[int, ...]


def spending_of(data: ReportData) -> Spending:
    """Return where the money of a study went."""
    levels = shown_levels(data.history)
    trials = data.history.trials
    told = [[t.outcome for t in trials if t.query.level == level and t.outcome is not None] for level in levels]
    pending = [sum(t.query.level == level and t.outcome is None for t in trials) for level in levels]
    return Spending(
        levels,
        tuple(sum((outcome.cost for outcome in outcomes), start=0.0) for outcomes in told),
        tuple(len(outcomes) for outcomes in told),
        tuple(sum(outcome.value is None for outcome in outcomes) for outcomes in told),
        tuple(pending),
    )


def spending_figure(data: ReportData, spending: Spending) -> go.Figure:
    """Return the figure: for each level its share of the cost and of the trials."""
    names = [safe(data.level_names[level], 24) for level in spending.levels]
    places = list(range(len(names)))
    colours = level_colours(len(names))
    rows = (("cost", spending.cost, 1.0), ("trials", spending.trials, 0.45))
    traces: list[object] = []
    for what, amounts, opacity in rows:
        total = sum(amounts) or 1.0
        traces.append(
            go.Bar(
                y=places,
                x=[100 * amount / total for amount in amounts],
                orientation="h",
                name=what,
                marker={"color": colours, "opacity": opacity, "line": {"color": GREY, "width": 0.5}},
                text=[f"{what} {short_number(amount)} ({amount / total:.0%})" for amount in amounts],
                textposition="auto",
                insidetextanchor="start",
                # Faded bars are light, whatever their colour.
                insidetextfont={"color": INK} if opacity < 1 else None,
                hoverinfo="text",
            )
        )
    figure = figure_of(traces, 110 + 64 * len(names), barmode="group", showlegend=False, bargap=0.25)
    figure.update_xaxes(title={"text": "share of all levels"}, ticksuffix=" %", range=[0, 100])
    figure.update_yaxes(tickvals=places, ticktext=names, autorange="reversed")
    return figure
