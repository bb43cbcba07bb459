"""Draw how the default method works, on a run with one parameter and two levels.

    python benchmarks/pictures_of_the_method.py --folder docs/figures/method

The run has Forrester's function: a rough level, and the one that counts. `belief.svg` shows what the model believes at
three moments, `offers.svg` what a look was worth before each evaluation. It takes some seconds.
"""

import argparse
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import bmbo
from bmbo.history import History
from bmbo.history.host_observations import Observations
from bmbo.protocols import Choice, Explaining, Starting
from bmbo.report import ReportData
from bmbo.report.model_view import ModelView
from bmbo.study.limits import Limits
from bmbo.study.next_queries import within_limits
from bmbo.synthetic import Synthetic, forrester
from figure_style import COLOURS, drawing, svg_text

TOTAL_COST = 120.0
PLACES = np.linspace(0.0, 1.0, 401)
ROUGH, TOP, BELIEF = COLOURS[0], COLOURS[1], "#8c8c8c"


def finished_run(function: Synthetic) -> tuple[History, Explaining]:
    """Return what a run of the default method evaluated, one at a time, and the method."""
    study = bmbo.create_study(space=function.problem.space, fidelities=function.problem.ladder.fidelities)
    study.optimize(lambda trial: function(trial.params, trial.level), total_cost=TOTAL_COST, show_progress_bar=False)
    policy = study.policy
    if not isinstance(policy, Explaining) or not isinstance(policy, Starting):
        raise TypeError(f"the default method cannot explain itself: {policy}")
    return study.history, policy


def first(history: History, num: int) -> History:
    """Return what was known after a number of evaluations."""
    return replace(history, trials=history.trials[:num])


def number_of_the_start(history: History, policy: Any) -> int:
    """Return how many evaluations the start took."""
    limited = within_limits(policy, Limits(TOTAL_COST), first(history, 0))
    assert isinstance(limited, Starting)
    return sum(limited.start_sizes(history.problem))


def draw_belief(axes: Any, function: Synthetic, policy: Explaining, history: History, title: str) -> None:
    """Draw both levels, what was evaluated, and what the model believes of the top."""
    data = ReportData("forrester", "memory", history, (), datetime.min)
    posteriors, _ = policy.surrogate.fit(Observations.of(history))
    band = ModelView(data.problem, posteriors).at_top(PLACES[:, None])
    axes.fill_between(PLACES, band.low, band.high, color=BELIEF, alpha=0.3, linewidth=0)
    axes.plot(PLACES, band.mean, color=BELIEF, label="believed of the top")
    for level, (colour, name) in enumerate(((ROUGH, "rough"), (TOP, "top"))):
        axes.plot(PLACES, function.values(PLACES[:, None], level), color=colour, linewidth=0.8, linestyle="--")
        done = [trial for trial in history.done if trial.query.level == level]
        where, values = [trial.query.unit[0] for trial in done], [trial.value for trial in done]
        axes.plot(where, values, "o", color=colour, markersize=3 + 2 * level, label=f"{name}: {len(done)}")
    axes.set(title=f"{title}, cost {history.spent:g}", xlabel="x", ylim=(-12, 20))
    axes.legend(loc="upper left", fontsize=8)


def belief(function: Synthetic, policy: Explaining, history: History, start: int) -> str:
    """Return the figure of what is believed at three moments."""
    moments = (start, (start + len(history.trials)) // 2, len(history.trials))
    with drawing():
        figure, all_axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
        for axes, num, name in zip(all_axes, moments, ("After the start", "On the way", "At the end"), strict=True):
            draw_belief(axes, function, policy, first(history, num), name)
        text = svg_text(figure, "What the model believes of the top, at three moments of a run")
        plt.close(figure)
    return text


def choices(policy: Explaining, history: History, start: int) -> list[Choice]:
    """Return what the method chose after the start, evaluation by evaluation, with what the levels offered."""
    found: list[Choice] = []
    for num in range(start, len(history.trials)):
        known = first(history, num)
        asked: Any = within_limits(policy, Limits(TOTAL_COST), known)
        found += asked.explain(0, known, 1)[0]
    return found


def offers(chosen: list[Choice], start: int) -> str:
    """Return the figure of what a look was worth before each evaluation, in parts of an evaluation at the top."""
    with drawing():
        figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
        axes.axhline(100.0, color=BELIEF, linewidth=0.8)
        for level, (colour, name) in enumerate(((ROUGH, "a look was taken"), (TOP, "the top was evaluated"))):
            taken = [
                (start + place, 100.0 * look.rate / top.rate)
                for place, each in enumerate(chosen)
                if each.query.level == level and len(each.offers) == 2
                for look, top in [sorted(each.offers, key=lambda offer: offer.level)]
            ]
            axes.plot([place for place, _ in taken], [share for _, share in taken], "o", color=colour, label=name)
        axes.set(
            title="A look at the rough level is taken where it is worth more than an evaluation at the top",
            xlabel="number of the evaluation",
            ylabel="worth of a look, %",
        )
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        text = svg_text(figure, "Gain per cost of a look, in parts of that of an evaluation at the top")
        plt.close(figure)
    return text


def main() -> None:
    """Run the method and write both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    function = forrester()
    history, policy = finished_run(function)
    start = number_of_the_start(history, policy)
    (folder / "belief.svg").write_text(belief(function, policy, history, start), encoding="utf-8")
    (folder / "offers.svg").write_text(offers(choices(policy, history, start), start), encoding="utf-8")


if __name__ == "__main__":
    main()
