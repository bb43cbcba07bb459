"""Measure how often the truth lies inside the predictive intervals of the surrogate.

    python benchmarks/calibration.py --out-svg docs/figures/calibration.svg

The functions and training points are those of surrogate_table.py. The intervals are central intervals of function draws
with noise draws added.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from tqdm import tqdm

from bmbo.surrogates.darn import Darn
from figure_style import COLOURS, drawing, svg_text
from surrogate_table import (
    FUNCTIONS,
    SIZES,
    Floats,
    Prediction,
    draw_sample,
    finite,
    fit_and_predict,
    heading,
    markdown,
    quick,
    write,
)

SHOWN = (0.5, 0.8, 0.95)
"""Sizes of the intervals in the table."""

NOMINAL = np.round(np.arange(0.05, 0.96, 0.05), 2)
"""Sizes of the intervals in the figure. They include those of the table."""

NUM_NOISE = 8
"""Noise draws per function draw. With so many, the number of functions limits the precision of a quantile."""

X_LABEL, Y_LABEL = "nominal size of the interval", "held-out points inside"


def coverage(prediction: Prediction, truth: Floats, generator: np.random.Generator) -> Floats:
    """Return the share of points inside the central interval of each nominal size."""
    scale = np.sqrt(prediction.variance)
    shape = (NUM_NOISE, *prediction.outputs.shape)
    outcomes = prediction.outputs[None] + scale[None] * generator.standard_normal(shape)
    outcomes = outcomes.reshape(-1, outcomes.shape[-1])
    low = np.quantile(outcomes, 0.5 - NOMINAL / 2, axis=0)
    high = np.quantile(outcomes, 0.5 + NOMINAL / 2, axis=0)
    return np.mean((low <= truth) & (truth <= high), axis=1)


def measure(name: str, surrogate: Darn, num_test: int, seed: int) -> Floats:
    """Return the coverage after one fit."""
    sample = draw_sample(FUNCTIONS[name](), SIZES[name], num_test, seed)
    prediction, _ = fit_and_predict(surrogate, sample, seed)
    # Another random stream than that of the points.
    return coverage(prediction, sample.standardised(sample.test_value), np.random.default_rng((seed, 1)))


def table(observed: dict[str, Floats]) -> str:
    """Return a table with a row for each seed, and their mean."""
    columns = [int(np.flatnonzero(np.isclose(NOMINAL, shown))[0]) for shown in SHOWN]

    def row(name: str, label: str, shares: Floats) -> list[str]:
        return [name, label, *[f"{100 * shares[column]:.1f} %" for column in columns]]

    rows: list[list[str]] = []
    for name, shares in observed.items():
        rows += [row(name, str(seed), each) for seed, each in enumerate(shares)]
        rows.append(row(name, "mean", np.mean(shares, axis=0)))
    return markdown(["function", "seed", *[f"inside {100 * shown:.0f} %" for shown in SHOWN]], rows)


def svg(observed: dict[str, Floats]) -> str:
    """Return a reliability diagram as SVG text. Lines are means over seeds, and bands are their ranges."""
    nominal = np.concatenate([[0.0], NOMINAL])
    with drawing():
        made = Figure(figsize=(5.2, 5.0), layout="constrained")
        axes = made.subplots()
        axes.plot([0, 1], [0, 1], color="#808080", linestyle=(0, (5, 4)), linewidth=1)
        for colour, (name, shares) in zip(COLOURS, observed.items(), strict=False):
            with_origin = np.column_stack([np.zeros(len(shares)), shares])
            low, high = with_origin.min(axis=0), with_origin.max(axis=0)
            axes.fill_between(nominal, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(nominal, with_origin.mean(axis=0), color=colour, linewidth=2, label=name)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=X_LABEL, ylabel=Y_LABEL, aspect="equal")
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.legend(loc="upper left")
        return svg_text(made, "Share of held-out points inside central predictive intervals")


def html(observed: dict[str, Floats]) -> str:
    """Return the figure as an interactive page. It needs plotly, the extra `plot`."""
    import plotly.graph_objects as go  # noqa: PLC0415 (an extra; the script runs without it)

    figure = go.Figure()
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="calibrated", line={"dash": "dash", "color": "grey"})
    for colour, (name, shares) in zip(COLOURS, observed.items(), strict=False):
        mean = np.mean(shares, axis=0)
        error = {"type": "data", "symmetric": False, "array": np.max(shares, axis=0) - mean}
        error["arrayminus"] = mean - np.min(shares, axis=0)
        figure.add_scatter(x=NOMINAL, y=mean, mode="lines+markers", name=name, line={"color": colour}, error_y=error)
    figure.update_layout(
        xaxis={"title": X_LABEL, "tickformat": ".0%"},
        yaxis={"title": Y_LABEL, "tickformat": ".0%", "range": [0, 1]},
    )
    return figure.to_html(include_plotlyjs="cdn")


def _record(observed: dict[str, Floats], seeds: Sequence[int]) -> str:
    record = {"nominal": NOMINAL.tolist(), "seeds": list(seeds)}
    return json.dumps(finite(record | {name: shares.tolist() for name, shares in observed.items()}), indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0 on")
    parser.add_argument("--num-test", type=int, default=1000, help="held-out points per seed")
    parser.add_argument("--quick", action="store_true", help="use a tiny budget, only to see that the script runs")
    parser.add_argument("--out", type=Path, help="Markdown file for the table")
    parser.add_argument("--out-svg", type=Path, help="SVG file for the figure")
    parser.add_argument("--out-html", type=Path, help="HTML file for the figure; needs plotly")
    parser.add_argument("--json", type=Path, help="JSON file for every seed")
    arguments = parser.parse_args()
    preset = Darn.preset("default")
    surrogate = quick(preset) if arguments.quick else preset
    observed: dict[str, Floats] = {}
    with tqdm(total=len(arguments.functions) * arguments.seeds, unit="fit") as bar:
        for name in arguments.functions:
            shares: list[Floats] = []
            for seed in range(arguments.seeds):
                bar.set_postfix_str(f"{name}, seed {seed}")
                shares.append(measure(name, surrogate, arguments.num_test, seed))
                bar.update()
            observed[name] = np.stack(shares)
    text = "\n\n".join([heading("calibration.py"), table(observed)])
    print(text)
    write(arguments.out, text)
    if arguments.out_svg is not None:
        write(arguments.out_svg, svg(observed))
    if arguments.out_html is not None:
        write(arguments.out_html, html(observed))
    write(arguments.json, _record(observed, range(arguments.seeds)))


if __name__ == "__main__":
    main()
