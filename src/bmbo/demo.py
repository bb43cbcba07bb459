"""Show the main job on an embedded problem: `python -m bmbo.demo`.

It optimises the paper's three-fidelity Branin in batches of five. It says level by level where the money went, what
was found, what to try next, and what random search finds with the same money. With `--report` it writes a page with
figures.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bmbo.study import Study, create_study
from bmbo.study.trial import Trial
from bmbo.synthetic import Synthetic, branin


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(prog="python -m bmbo.demo", description=__doc__)
    parser.add_argument("--total-cost", type=float, default=1000.0, help="what all evaluations may cost together")
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="also write a page with figures of the run, an HTML file")
    options = parser.parse_args(arguments)
    function = branin()
    ladder = function.problem.ladder
    levels = ", ".join(
        f"{fidelity.name} (cost {cost:g})" for fidelity, cost in zip(ladder.fidelities, ladder.costs, strict=True)
    )
    print(f"Maximising Branin at fidelities {levels}; budget {options.total_cost:g}, batches of {options.batch_size}.")

    study = _run(function, options)
    best, following = study.best_trial, study.recommendation()
    print("\nWhere the money went:")
    print("\n".join(_spending(study)))
    print(f"Best configuration at the top fidelity: {_shown(best.params)}")
    print(
        f"  value {study.best_value:.5f}; the true optimum is {function.optimum:.5f}, so the regret is "
        f"{function.regret(study.best_value):.2g}"
    )
    print(f"  found for a cost of {study.history.spent:g} in {len(study.trials)} evaluations")
    print(f"Next thing to try: {_shown(following.params)} at {ladder[ladder.top].name}")
    print(f"  the surrogate expects {following.value:.5f} ± {following.std:.2g} there")

    num = int(options.total_cost / ladder.costs[-1])
    print(f"Random search with the same money, {num} evaluations at the top fidelity:")
    print(f"  the regret is {function.regret(_best_at_random(function, num, options.seed)):.2g}")
    if options.report is not None:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        print(f"A page with figures of this run, to open in a browser: {study.report(options.report)}")


def _best_at_random(function: Synthetic, num: int, seed: int) -> float:
    """Return the best value of random configurations. The method of that name would load JAX."""
    space, top = function.problem.space, function.problem.ladder.top
    points = space.snap(np.random.default_rng(seed).random((num, space.dim)))
    return max(function(space.decode(tuple(float(u) for u in unit)), top) for unit in points)


def _run(function: Synthetic, options: argparse.Namespace) -> Study:
    """Return a finished study of the function, by the default method."""
    study = create_study(
        space=function.problem.space,
        fidelities=function.problem.ladder.fidelities,
        direction="maximize",
        seed=options.seed,
    )

    def objective(trial: Trial) -> float:
        return function(trial.params, trial.level)

    study.optimize(objective, total_cost=options.total_cost, batch_size=options.batch_size)
    return study


def _spending(study: Study) -> list[str]:
    """Return one line for each level: how many evaluations it had, what they cost, and a bar for their share."""
    ladder, trials = study.problem.ladder, study.trials
    lines: list[str] = []
    for level, (fidelity, cost) in enumerate(zip(ladder.fidelities, ladder.costs, strict=True)):
        count = sum(trial.level == level for trial in trials)
        share = count * cost / study.history.spent
        bar = "█" * round(30 * share)
        line = f"  {fidelity.name:<8}{count:>4} evaluations  cost {count * cost:>6g}  {share:>4.0%} {bar}"
        lines.append(line.rstrip())
    return lines


def _shown(params: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.5g}" if isinstance(value, float) else f"{name} = {value}" for name, value in params.items()
    )


if __name__ == "__main__":
    main()
