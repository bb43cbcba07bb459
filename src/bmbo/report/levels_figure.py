"""Draw how the values of the levels go together."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from bmbo.history.host_observations import Floats
from bmbo.report.model_view import SharedPoints
from bmbo.report.plot_style import figure_of, safe
from bmbo.report.report_data import ReportData

COLOURS = [[0.0, "#b91c1c"], [0.5, "#ffffff"], [1.0, "#1d4ed8"]]


def levels_figure(
    data: ReportData, model: Floats | None, shared: SharedPoints, levels: Sequence[int] | None = None
) -> go.Figure:
    """Return the figure: a square for each two levels.

    Args:
        data: of the study.
        model: the correlations that the model sees [m m]; None shows those of the ranks of shared points.
        shared: how the observed values go together.
        levels: that are compared, all by default.
    """
    correlation = shared.rank if model is None else model
    levels = range(data.problem.ladder.num_levels) if levels is None else levels
    names = [safe(data.level_names[level], 16) for level in levels]
    places = list(range(len(names)))
    texts = [[_text(correlation, shared, one, other, model is not None) for other in places] for one in places]
    shown = np.where(np.eye(len(names), dtype=bool), 1.0, correlation)
    traces = [
        go.Heatmap(
            x=places,
            y=places,
            z=shown,
            zmin=-1,
            zmax=1,
            colorscale=COLOURS,
            showscale=False,
            xgap=2,
            ygap=2,
            hoverinfo="skip",
        ),
        *(
            # As text over the squares, so that a phone, where nothing hovers, shows it too.
            go.Scatter(
                x=[other for one in places for other in places if _is_dark(shown[one, other]) == dark],
                y=[one for one in places for other in places if _is_dark(shown[one, other]) == dark],
                text=[texts[one][other] for one in places for other in places if _is_dark(shown[one, other]) == dark],
                mode="text",
                textfont={"color": "white" if dark else "#111827", "size": 12},
                hoverinfo="skip",
                showlegend=False,
            )
            for dark in (False, True)
        ),
    ]
    figure = figure_of(traces, 120 + 78 * len(names))
    figure.update_xaxes(tickvals=places, ticktext=names, showgrid=False, range=[-0.5, len(names) - 0.5])
    figure.update_yaxes(tickvals=places, ticktext=names, showgrid=False, range=[len(names) - 0.5, -0.5])
    return figure


def _is_dark(value: float) -> bool:
    return bool(abs(value) > 0.6)


def _text(correlation: Floats, shared: SharedPoints, one: int, other: int, has_model: bool) -> str:
    if one == other:
        return "1"
    value, num = correlation[one, other], int(shared.num[one, other])
    first = "?" if np.isnan(value) else f"{value:.2f}"
    if not has_model:
        return f"{first}<br>{num} shared"
    rank = shared.rank[one, other]
    return first if np.isnan(rank) else f"{first}<br>ranks {rank:.2f}"
