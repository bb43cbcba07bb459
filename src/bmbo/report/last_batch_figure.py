"""Draw what the levels offered when the last batch was chosen."""

import plotly.graph_objects as go

from bmbo.report.plot_style import INK, figure_of, level_colours, safe
from bmbo.report.report_data import LastBatch, ReportData, short_number

MOST_QUERIES = 20
FEWEST_PLACES = 4
"""Places along the axis, so that the bars of a single query are not as wide as the page."""


def relative_rates(batch: LastBatch) -> list[dict[int, float]]:
    """Return the gain per cost of each level's offer, for each query, in parts of the highest one."""
    found: list[dict[int, float]] = []
    for choice in batch.choices:
        highest = max((offer.rate for offer in choice.offers), default=0.0)
        found.append({offer.level: offer.rate / highest for offer in choice.offers} if highest > 0 else {})
    return found


def last_batch_figure(data: ReportData, batch: LastBatch) -> go.Figure:
    """Return the figure: for each query a bar for each level; the level that was chosen has a frame."""
    rates = relative_rates(batch)[:MOST_QUERIES]
    choices = batch.choices[: len(rates)]
    places = list(range(len(rates)))
    colours = level_colours(data.problem.ladder.num_levels)
    traces: list[object] = []
    for level, name in enumerate(data.level_names):
        chosen = [choice.query.level == level for choice in choices]
        offers = [next((o for o in choice.offers if o.level == level), None) for choice in choices]
        if any(offer is not None for offer in offers):
            traces.append(
                go.Bar(
                    x=places,
                    y=[100 * each.get(level, 0.0) for each in rates],
                    name=safe(name),
                    marker={
                        "color": colours[level],
                        "line": {"color": INK, "width": [2.5 if mine else 0 for mine in chosen]},
                    },
                    hovertext=[
                        ""
                        if offer is None
                        else f"{safe(name)}<br>gain {short_number(offer.gain)}<br>cost {short_number(offer.cost)}"
                        for offer in offers
                    ],
                    hoverinfo="text",
                )
            )
    labels = [f"trial {number}" for number in batch.numbers[: len(places)]] if batch.is_same else None
    figure = figure_of(traces, 320, barmode="group")
    figure.update_xaxes(range=[-0.5, max(len(places), FEWEST_PLACES) - 0.5])
    figure.update_xaxes(tickvals=places, ticktext=labels or [f"query {place + 1}" for place in places])
    figure.update_yaxes(title={"text": "gain per cost, of the highest"}, ticksuffix=" %", rangemode="tozero")
    return figure
