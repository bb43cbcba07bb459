"""Does the surrogate know what it does not know: how often the truth lies inside its predictive intervals.

    python benchmarks/calibration.py --out-svg docs/figures/calibration.svg

The functions and training points are those of surrogate_table.py; an interval is central, of function draws with noise
draws added.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from bmbo.surrogates.darn import Darn
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
"""Intervals of the table."""

NOMINAL = np.round(np.arange(0.05, 0.96, 0.05), 2)
"""Intervals of the figure; those of the table are among them."""

NUM_NOISE = 8
"""Noise draws a function draw: enough that the number of functions, not this, limits how well a quantile is known."""

COLOURS = ("#0072b2", "#d55e00", "#009e73")
"""Told apart by colour-blind readers too (Okabe and Ito)."""


def coverage(prediction: Prediction, truth: Floats, generator: np.random.Generator) -> Floats:
    """Share of points inside the central interval of each nominal size."""
    scale = np.sqrt(prediction.variance)
    shape = (NUM_NOISE, *prediction.outputs.shape)
    outcomes = prediction.outputs[None] + scale[None] * generator.standard_normal(shape)
    outcomes = outcomes.reshape(-1, outcomes.shape[-1])
    low = np.quantile(outcomes, 0.5 - NOMINAL / 2, axis=0)
    high = np.quantile(outcomes, 0.5 + NOMINAL / 2, axis=0)
    return np.mean((low <= truth) & (truth <= high), axis=1)


def measure(name: str, surrogate: Darn, num_test: int, seed: int) -> Floats:
    """Coverage after one fit."""
    sample = draw_sample(FUNCTIONS[name](), SIZES[name], num_test, seed)
    prediction, _ = fit_and_predict(surrogate, sample, seed)
    # A stream apart from that of the points.
    return coverage(prediction, sample.standardised(sample.test_value), np.random.default_rng((seed, 1)))


def table(observed: dict[str, Floats]) -> str:
    """A row a seed, and their mean."""
    columns = [int(np.flatnonzero(np.isclose(NOMINAL, shown))[0]) for shown in SHOWN]

    def row(name: str, label: str, shares: Floats) -> list[str]:
        return [name, label, *[f"{100 * shares[column]:.1f} %" for column in columns]]

    rows: list[list[str]] = []
    for name, shares in observed.items():
        rows += [row(name, str(seed), each) for seed, each in enumerate(shares)]
        rows.append(row(name, "mean", np.mean(shares, axis=0)))
    return markdown(["function", "seed", *[f"inside {100 * shown:.0f} %" for shown in SHOWN]], rows)


def _path(x: Floats, y: Floats) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _line(name: str, shares: Floats, colour: str, place: int) -> str:
    """One function: its mean as a line, the range over seeds as a band, and its name."""
    x = 60 + 340 * np.concatenate([[0.0], NOMINAL])

    def height(each: Floats) -> Floats:
        return 360 - 340 * np.concatenate([[0.0], each])

    low, mean, high = (height(np.asarray(f(shares, axis=0))) for f in (np.min, np.mean, np.max))
    band = _path(np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]]))
    y = 44 + 20 * place
    return (
        f'<polygon points="{band}" fill="{colour}" fill-opacity="0.15"/>\n'
        f'<polyline points="{_path(x, mean)}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
        f'<line x1="76" y1="{y}" x2="96" y2="{y}" stroke="{colour}" stroke-width="2"/>\n'
        f'<text x="102" y="{y + 4}">{name}</text>'
    )


def svg(observed: dict[str, Floats]) -> str:
    """A reliability diagram that needs nothing to be drawn with."""
    ticks: list[str] = []
    for percent in range(0, 101, 20):
        x, y = 60 + 3.4 * percent, 360 - 3.4 * percent
        ticks.append(f'<line x1="{x:.0f}" y1="20" x2="{x:.0f}" y2="360" stroke="#e5e5e5"/>')
        ticks.append(f'<line x1="60" y1="{y:.0f}" x2="400" y2="{y:.0f}" stroke="#e5e5e5"/>')
        ticks.append(f'<text x="{x:.0f}" y="378" text-anchor="middle">{percent} %</text>')
        ticks.append(f'<text x="54" y="{y + 4:.0f}" text-anchor="end">{percent} %</text>')
    lines = [_line(name, shares, COLOURS[place], place) for place, (name, shares) in enumerate(observed.items())]
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 420 410" font-family="sans-serif" font-size="12">',
        "<title>Share of held-out points inside central predictive intervals</title>",
        '<rect width="420" height="410" fill="white"/>',
        *ticks,
        '<line x1="60" y1="360" x2="400" y2="20" stroke="#808080" stroke-dasharray="5 4"/>',
        *lines,
        '<text x="230" y="400" text-anchor="middle">nominal size of the interval</text>',
        '<text x="14" y="190" text-anchor="middle" transform="rotate(-90 14 190)">held-out points inside</text>',
        "</svg>",
    ]
    return "\n".join(parts)


def html(observed: dict[str, Floats]) -> str:
    """The same as an interactive page; needs plotly, the extra `plot`."""
    import plotly.graph_objects as go  # noqa: PLC0415 (an extra: the script runs without)

    figure = go.Figure()
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", name="calibrated", line={"dash": "dash", "color": "grey"})
    for colour, (name, shares) in zip(COLOURS, observed.items(), strict=False):
        mean = np.mean(shares, axis=0)
        error = {"type": "data", "symmetric": False, "array": np.max(shares, axis=0) - mean}
        error["arrayminus"] = mean - np.min(shares, axis=0)
        figure.add_scatter(x=NOMINAL, y=mean, mode="lines+markers", name=name, line={"color": colour}, error_y=error)
    figure.update_layout(
        xaxis={"title": "nominal size of the interval", "tickformat": ".0%"},
        yaxis={"title": "held-out points inside", "tickformat": ".0%", "range": [0, 1]},
    )
    return figure.to_html(include_plotlyjs="cdn")


def _record(observed: dict[str, Floats], seeds: Sequence[int]) -> str:
    record = {"nominal": NOMINAL.tolist(), "seeds": list(seeds)}
    return json.dumps(finite(record | {name: shares.tolist() for name, shares in observed.items()}), indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0 on")
    parser.add_argument("--num-test", type=int, default=1000, help="held-out points a seed")
    parser.add_argument("--quick", action="store_true", help="a budget too small to mean anything: does it run?")
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
