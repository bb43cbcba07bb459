"""Draw a real run of the default method beside random search: what was evaluated, and what came of it.

    python benchmarks/picture_of_a_run.py --out docs/figures/run.svg

Both have the three-fidelity Branin, the same budget and the same seed. It takes about as long as `make demo`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

import bmbo
from bmbo.protocols import Policy
from bmbo.study import Trial
from bmbo.synthetic import Synthetic, branin
from figure_style import COLOURS, drawing, svg_text


def run(function: Synthetic, method: Policy, total_cost: float, seed: int) -> bmbo.Study:
    """Return a finished study in batches of five."""
    study = bmbo.create_study(
        space=function.problem.space,
        fidelities=function.problem.ladder.fidelities,
        direction="maximize",
        seed=seed,
        method=method,
    )
    study.optimize(
        lambda trial: function(trial.params, trial.level),
        total_cost=total_cost,
        batch_size=5,
        show_progress_bar=False,
    )
    return study


def costs_and_regrets(function: Synthetic, trials: Sequence[Trial]) -> tuple[list[float], list[float]]:
    """Return what had been spent when each trial at the top came in, and the regret of the best until then."""
    ladder = function.problem.ladder
    spent, best = 0.0, float("-inf")
    costs: list[float] = []
    regrets: list[float] = []
    for trial in trials:
        spent += ladder.costs[trial.level]
        if trial.level == ladder.top and trial.value is not None:
            best = max(best, trial.value)
            costs.append(spent)
            regrets.append(max(function.regret(best), 1e-6))
    return costs, regrets


def picture(function: Synthetic, study: bmbo.Study, rival: bmbo.Study) -> str:
    """Return the figure as SVG."""
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
        for level, fidelity in enumerate(function.problem.ladder.fidelities):
            points = [trial.params for trial in study.trials if trial.level == level]
            left.scatter(
                [point["x1"] for point in points],
                [point["x2"] for point in points],
                s=12 + 14 * level,
                color=COLOURS[level],
                label=f"{fidelity.name}: {len(points)}",
            )
        best = function.optimisers
        left.scatter([point["x1"] for point in best], [point["x2"] for point in best], s=90, marker="x", color="black")
        left.set(title="Where it looked, and how closely (x: optimum)", xlabel="x1", ylabel="x2")
        left.legend(loc="upper right", fontsize=8, frameon=True)
        for shown, name, colour in ((study, "screening()", COLOURS[0]), (rival, "random search", COLOURS[1])):
            costs, regrets = costs_and_regrets(function, shown.trials)
            right.step(costs, regrets, where="post", color=colour)
            end = (costs[-1], regrets[-1])
            right.annotate(name, end, (-4, 5), textcoords="offset points", ha="right", color=colour)
        right.set(title="What the best answer lacks", xlabel="cost", ylabel="regret at the top", yscale="log")
        text = svg_text(figure, "A run of bmbo on Branin with three fidelities")
        plt.close(figure)
    return text


def main() -> None:
    """Run both and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--total-cost", type=float, default=1000.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    function = branin()
    study, rival = (
        run(function, method, given.total_cost, given.seed) for method in (bmbo.screening(), bmbo.random_search())
    )
    given.out.write_text(picture(function, study, rival), encoding="utf-8")


if __name__ == "__main__":
    main()
