"""Write the page on workers: the same method one at a time, in batches, and with workers that do not wait."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.reporting.paired_statistics import Interval, interval
from experiments.reporting.report import number, table
from experiments.reporting.wall_time import MARKS, Schedules, common_problems, common_seeds, mean_regrets, time_ratios

Floats = NDArray[np.float64]

SINGLE = "one at a time"

SHARES = (0.25, 0.5, 1.0)
"""The shares of the cost whose regrets are targets."""

AXES = ("cost", "wall time")


def write_page(runs: Schedules, method: str, workers: int, out: Path, *, command: str) -> None:
    """Write the page. Raise `ValueError` if no problem has runs one at a time and with workers."""
    if SINGLE not in runs or len(runs) < 2:
        raise ValueError(
            f"there are no runs of {method} one at a time and with {workers} workers; `python -m experiments run "
            f"--suite` makes them, with --batch-size {workers} and with --schedule async"
        )
    problems = common_problems(runs)
    if not problems:
        raise ValueError(f"no problem has runs of {method} under every schedule: {', '.join(runs)}")
    found = {name: mean_regrets(runs, name, problems) for name in runs}
    parts = [_opening(method, workers, command, len(problems), runs), *_regret_sections(found), _ratio_section(runs)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join(parts) + "\n")


def _opening(method: str, workers: int, command: str, num_problems: int, runs: Schedules) -> str:
    counts = {len(common_seeds(runs, problem)) for problem in common_problems(runs)}
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return "\n".join(
        [
            "# Workers and wall time",
            "",
            f"    {command}",
            "",
            f"`{method}` one at a time, and with {workers} workers: in batches, where all wait for the last one of a",
            f"batch, and without waiting. {num_problems} problems have runs of all, with the same seeds:",
            f"{seeds} each.",
            "",
            "Times are simulated: an evaluation takes as long as it costs, and suggesting takes no time. The unit of",
            f"cost and of time is one evaluation at the top. {workers} workers that are always busy spend the cost of",
            f"40 evaluations in the time of {40 / workers:g}. Regrets are normalised as in the",
            "[suite](development-b1-report.md). Brackets hold 95 % bootstrap intervals over problems.",
        ]
    )


def _regret_sections(found: dict[str, Floats]) -> list[str]:
    sections: list[str] = []
    for axis, name in enumerate(AXES):
        head = ["", *(f"{mark:g}" for mark in MARKS)]
        rows = [[each, *(f"{mean:.3f}" for mean in values[:, axis].mean(axis=0))] for each, values in found.items()]
        rows += [
            [f"{each}, minus {SINGLE}", *(_shown(interval(gap)) for gap in (values - found[SINGLE])[:, axis].T)]
            for each, values in found.items()
            if each != SINGLE
        ]
        sections.append("\n".join([f"## At equal {name}", "", table(head, rows)]))
    return sections


def _shown(found: Interval) -> str:
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _ratio_section(runs: Schedules) -> str:
    rows: list[list[str]] = []
    for name in runs:
        for share in SHARES if name != SINGLE else ():
            ratios = np.array(time_ratios(runs, name, SINGLE, share))
            median = float(np.quantile(ratios, 0.5, method="lower")) if len(ratios) else np.nan
            rows.append([name, f"{share:.0%}", f"{len(ratios)}", number(median), f"{np.mean(np.isinf(ratios)):.0%}"])
    return "\n".join(
        [
            "## Time to the values of one at a time",
            "",
            f"The wall time at which workers reach what {SINGLE} has at a share of its cost, over the time at which",
            "that did. Medians over problems and seeds; never counts as infinite, and a dash is an infinite median.",
            "",
            table(["", "share", "pairs", "time ratio", "never"], rows),
        ]
    )
