"""Show the main job on an embedded problem: `python -m bmbo.demo`.

It optimises the paper's three-fidelity Branin in batches of five, and says what was found and what to try next.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from bmbo.study import create_study
from bmbo.study.trial import Trial
from bmbo.synthetic import branin


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(prog="python -m bmbo.demo", description=__doc__)
    parser.add_argument("--total-cost", type=float, default=1000.0, help="what all evaluations may cost together")
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    function = branin()
    ladder = function.problem.ladder
    study = create_study(
        space=function.problem.space,
        fidelities=ladder.fidelities,
        direction="maximize",
        seed=options.seed,
    )
    levels = ", ".join(
        f"{fidelity.name} (cost {cost:g})" for fidelity, cost in zip(ladder.fidelities, ladder.costs, strict=True)
    )
    print(f"Maximising Branin at fidelities {levels}; budget {options.total_cost:g}, batches of {options.batch_size}.")

    def objective(trial: Trial) -> float:
        return function(trial.params, trial.level)

    study.optimize(objective, total_cost=options.total_cost, batch_size=options.batch_size)
    best, following = study.best_trial, study.recommendation()
    print(f"\nBest configuration at the top fidelity: {_shown(best.params)}")
    print(
        f"  value {study.best_value:.5f}; the true optimum is {function.optimum:.5f}, so the regret is "
        f"{function.regret(study.best_value):.2g}"
    )
    print(f"  found for a cost of {study.history.spent:g} in {len(study.trials)} evaluations")
    print(f"Next thing to try: {_shown(following.params)} at {ladder[ladder.top].name}")
    print(f"  the surrogate expects {following.value:.5f} ± {following.std:.2g} there")


def _shown(params: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.5g}" if isinstance(value, float) else f"{name} = {value}" for name, value in params.items()
    )


if __name__ == "__main__":
    main()
