"""Draw what runs of the default find beside those of other tools, from the records of docs/results.

    python -m experiments.front_picture --out docs/figures/front.svg

Right: the average over the problems of the suite that nothing was tuned on. Left: one of these, the one where the lead
over Optuna's TPE at the end is the middle one of all leads. Nothing is run.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from benchmarks.figure_style import COLOURS, drawing, svg_text
from experiments.harness.packed_records import read_packed
from experiments.problems import reference_values, suite
from experiments.reporting.paired_statistics import LARGEST, WITHOUT_VALUE, Runs, Scored
from experiments.reporting.suite_page import collect

RECORDS = Path(__file__).parent.parent / "docs" / "results" / "records" / "development-b1"
OURS, RIVAL = "screening", "optuna_tpe"
NAMES = {OURS: "bmbo", "optuna_gp": "Optuna, GPSampler", RIVAL: "Optuna, TPE", "random": "random search"}
STYLES = {
    OURS: (COLOURS[0], 2.4),
    "optuna_gp": (COLOURS[2], 1.6),
    RIVAL: (COLOURS[1], 1.6),
    "random": ("#555555", 1.6),
}
SHARES = np.linspace(0.0, 1.0, 201)[1:]
"""Shares of the total cost at which curves are drawn."""


def regrets(runs: Sequence[Scored]) -> NDArray[np.float64]:
    """Return the regrets of runs as the suite counts them: [runs shares]."""
    found = np.array([[run.curve.at(share * run.total_cost) for share in SHARES] for run in runs])
    return np.minimum(np.where(np.isinf(found), WITHOUT_VALUE, found), LARGEST)


def typical(runs: Runs) -> str:
    """Return the problem where the lead over the rival at the end is the middle one."""

    def lead(problem: str) -> float:
        ends = [regrets(list(runs[problem][method].values()))[:, -1].mean() for method in (RIVAL, OURS)]
        return float(ends[0] - ends[1])

    ordered = sorted(runs, key=lead)
    return ordered[len(ordered) // 2]


def draw(
    axes: Axes, method: str, low: NDArray[np.float64], middle: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    """Draw a line with its band, and its name at its end."""
    colour, width = STYLES[method]
    axes.plot(100 * SHARES, middle, color=colour, linewidth=width)
    axes.fill_between(100 * SHARES, low, high, color=colour, alpha=0.15, linewidth=0)


def name_lines(axes: Axes, ends: dict[str, float]) -> None:
    """Write the names of the lines beside their ends, moved apart where they would overlap."""
    lowest, highest = axes.get_ylim()
    below = -np.inf
    for method, end in sorted(ends.items(), key=lambda item: item[1]):
        place = max((end - lowest) / (highest - lowest), below + 0.075)
        axes.text(
            1.02, place, NAMES[method], transform=axes.transAxes, color=STYLES[method][0], verticalalignment="center"
        )
        below = place


def picture(runs: Runs) -> str:
    """Return the figure as SVG."""
    problem = typical(runs)
    common = sorted(set.intersection(*(set(runs[problem][method]) for method in (OURS, RIVAL, "random"))))
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        ends: dict[str, float] = {}
        for method in (OURS, RIVAL, "random"):
            found = regrets([runs[problem][method][seed] for seed in common])
            low, middle, high = np.quantile(found, (0.25, 0.5, 0.75), axis=0)
            draw(left, method, low, middle, high)
            ends[method] = float(middle[-1])
        left.set(title=f"{problem}, {len(common)} seeds: median, quartiles")
        left.set(ylim=(0, 1.02), ylabel="regret; 1: a random configuration")
        name_lines(left, ends)
        ends = {}
        for method in NAMES:
            each = np.array([regrets(list(found[method].values())).mean(axis=0) for found in runs.values()])
            middle = each.mean(axis=0)
            error = each.std(axis=0) / np.sqrt(len(each))
            draw(right, method, middle - error, middle + 0 * error, middle + error)
            ends[method] = float(middle[-1])
        right.set(title=f"{len(runs)} problems: average, standard error", ylim=(0, 1.02))
        name_lines(right, ends)
        for axes in (left, right):
            axes.set(xlim=(0, 100), xlabel="cost spent, % of the budget")
            axes.title.set_horizontalalignment("left")
            axes.title.set_x(0)
        text = svg_text(figure, "What runs of bmbo find beside other tools")
        plt.close(figure)
    return text


def main() -> None:
    """Read the records and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    reporting = set(suite.names_of("report"))
    records = [
        record for record in read_packed(RECORDS) if record.task.method in NAMES and record.task.problem in reporting
    ]
    page = collect(records, reference_values.read(), OURS)
    given.out.write_text(picture(page.common()), encoding="utf-8")


if __name__ == "__main__":
    main()
