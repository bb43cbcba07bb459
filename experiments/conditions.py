"""Compare methods where parameters exist only in some branches.

    python -m experiments.conditions --out docs/results/conditions.md

The peers are Optuna's TPE with `group=True`, whose scripts branch, and SMAC with the same conditions, which is left out
if it is not installed. Both run at the top fidelity. The default of bmbo runs with both fidelities and with the top
alone; a third row shows it without conditions, where the objective ignores what does not apply.
"""

# A peer is imported where a run is made, and may be missing.
# pyright: reportMissingImports=false

import argparse
import logging
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import bmbo
from experiments.problems.branching_spaces import PROBLEMS, Branching, without_conditions

TOP_EVALUATIONS = 40
"""The total cost of a run, in evaluations at the top."""

MARKS = (0.25, 0.5, 1.0)
"""Shares of the total cost at which methods are compared."""

Curve = Sequence[tuple[float, float]]
"""After each evaluation, its cost and its value at the top; infinity below the top."""


def _ours(problem: Branching, seed: int, num: int, *, levels: bool, conditions: bool) -> Curve:
    """Run the default method."""
    space = bmbo.Space(problem.space)
    study = bmbo.create_study(
        space=space if conditions else without_conditions(problem.space),
        fidelities=problem.fidelities if levels else [problem.top],
        seed=seed,
    )

    def objective(trial: bmbo.Trial) -> float:
        config = dict(trial.params)
        if not conditions and space.tree is not None:
            config = {name: config[name] for name in space.tree.existing(config)}
        return problem.evaluate(config, trial.fidelity)

    study.optimize(objective, total_cost=num * float(problem.top.cost), show_progress_bar=False)
    return [
        (float(trial.cost or 0.0), float(trial.value) if trial.fidelity == problem.top.value else math.inf)
        for trial in study.trials
        if trial.value is not None
    ]


def _random(problem: Branching, seed: int, num: int) -> Curve:
    space = bmbo.Space(problem.space)
    points = space.snap(np.random.default_rng(seed).random((num, space.dim)))
    configs = [space.decode(unit) for unit in points.tolist()]
    return [(float(problem.top.cost), problem.evaluate(config, problem.top.value)) for config in configs]


def _optuna(problem: Branching, seed: int, num: int) -> Curve:
    """Run TPE on a script that asks for what exists."""
    import optuna  # noqa: PLC0415 - a peer

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = bmbo.Space(problem.space)

    def objective(trial: optuna.Trial) -> float:
        config: dict[str, Any] = {}
        for place in space.tree.order if space.tree is not None else ():
            name, param = space.params[place]
            if space.tree is not None and space.tree.exists(place, config):
                config[name] = _asked(trial, name, param)
        return problem.evaluate(config, problem.top.value)

    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=num)
    return [(float(problem.top.cost), float(trial.value or 0.0)) for trial in study.trials]


def _asked(trial: Any, name: str, param: Any) -> Any:
    if isinstance(param, bmbo.Categorical):
        return trial.suggest_categorical(name, list(param.choices))
    kind = trial.suggest_int if isinstance(param, bmbo.Int) else trial.suggest_float
    return kind(name, param.low, param.high, log=param.log)


def _smac(problem: Branching, seed: int, num: int) -> Curve:
    """Run SMAC's hyperparameter facade with the same conditions."""
    from smac import HyperparameterOptimizationFacade, Scenario  # noqa: PLC0415 - a peer, which may be missing
    from smac.runhistory.dataclasses import TrialValue  # noqa: PLC0415

    logging.getLogger("smac").setLevel(logging.ERROR)
    curve: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            _config_space(problem, seed), deterministic=True, seed=seed, n_trials=num, output_directory=Path(folder)
        )
        facade = HyperparameterOptimizationFacade(scenario, _never_called, overwrite=True, logging_level=logging.ERROR)
        for _ in range(num):
            asked = facade.ask()
            value = problem.evaluate(dict(asked.config), problem.top.value)
            facade.tell(asked, TrialValue(cost=value), save=False)
            curve.append((float(problem.top.cost), value))
    return curve


def _never_called(config: Any, seed: int = 0) -> float:
    """Stand for the objective, which SMAC is told of by ask and tell."""
    raise NotImplementedError(f"{config} with seed {seed} is asked for and told")


def _config_space(problem: Branching, seed: int) -> Any:
    import ConfigSpace  # noqa: PLC0415 - comes with SMAC

    found = ConfigSpace.ConfigurationSpace(seed=seed)
    params = bmbo.Space(problem.space).params
    for name, param in params:
        if isinstance(param, bmbo.Categorical):
            found.add(ConfigSpace.CategoricalHyperparameter(name, list(param.choices)))
        elif isinstance(param, bmbo.Int):
            found.add(ConfigSpace.UniformIntegerHyperparameter(name, param.low, param.high, log=param.log))
        else:
            found.add(ConfigSpace.UniformFloatHyperparameter(name, param.low, param.high, log=param.log))
    for name, param in params:
        for parent, values in param.when or ():
            found.add(ConfigSpace.InCondition(found[name], found[parent], list(values)))
    return found


METHODS: Mapping[str, Callable[[Branching, int, int], Curve]] = {
    "screening, two fidelities": lambda *task: _ours(*task, levels=True, conditions=True),
    "screening, top alone": lambda *task: _ours(*task, levels=False, conditions=True),
    "screening, top alone, no conditions": lambda *task: _ours(*task, levels=False, conditions=False),
    "Optuna TPE, group=True": _optuna,
    "SMAC": _smac,
    "random": _random,
}


def bests_of(curve: Curve, total: float) -> list[float]:
    """Return the best value at the top that was known at each mark of a total cost."""
    spent = np.cumsum([cost for cost, _ in curve])
    best = np.minimum.accumulate([value for _, value in curve])
    found: list[float] = []
    for mark in MARKS:
        known = best[spent <= mark * total * (1 + 1e-9)]
        found.append(float(known[-1]) if len(known) else math.inf)
    return found


def _run(task: tuple[str, str, int, int]) -> list[float]:
    problem, name, seed, num = task
    bmbo_log = logging.getLogger("bmbo")
    bmbo_log.setLevel(logging.ERROR)
    return bests_of(METHODS[name](PROBLEMS[problem], seed, num), num * float(PROBLEMS[problem].top.cost))


def _versions() -> str:
    peers = [name for name in ("optuna", "smac", "numpy", "scikit-learn") if find_spec(name.replace("scikit-", "sk"))]
    return ", ".join(f"{name} {metadata.version(name)}" for name in peers)


def page(found: Mapping[tuple[str, str], np.ndarray], names: Sequence[str], options: argparse.Namespace) -> str:
    """Return the page: means over seeds, and in how many seeds the first method ends better than each other."""
    parts = [
        "# Conditional parameters",
        f"Made by `python -m experiments.conditions --seeds {options.seeds} --top-evaluations "
        f"{options.top_evaluations}`, with {_versions()}.",
        f"Two problems whose parameters exist only in some branches, with {options.seeds} seeds each. The total cost "
        f"is that of {options.top_evaluations} evaluations at the top. The tables show the mean of the best value at "
        "the top, at shares of the total cost; small is good. The last column counts the seeds in which `screening` "
        "with the top alone ends better than the method of the row, and those in which it ends worse.",
    ]
    mine = names[1]
    for problem in PROBLEMS:
        lines = ["| method | 25 % | 50 % | 100 % | better, worse |", "| --- | --- | --- | --- | --- |"]
        for name in names:
            gap = found[problem, mine][:, -1] - found[problem, name][:, -1]
            counts = "-" if name == mine else f"{int((gap < -1e-12).sum())}, {int((gap > 1e-12).sum())}"
            means = " | ".join("-" if math.isinf(mean) else f"{mean:.4f}" for mean in found[problem, name].mean(0))
            lines.append(f"| {name} | {means} | {counts} |")
        parts += [f"## {problem.capitalize()}", "\n".join(lines)]
    parts.append(
        'The first is a function whose minimum of 0.024 at the top lies in the branch "net" with two layers; '
        "the second chooses among a support vector machine, a forest and neighbours for images of digits, and its "
        "values are shares of wrong digits. Its rough level trains on a quarter of the images."
    )
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--top-evaluations", type=int, default=TOP_EVALUATIONS, help="what the total cost pays for")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options = parser.parse_args(arguments)
    names = [name for name in METHODS if name != "SMAC" or find_spec("smac") is not None]
    tasks = [
        (problem, name, seed, options.top_evaluations)
        for problem in PROBLEMS
        for name in names
        for seed in range(options.seeds)
    ]
    runs: dict[tuple[str, str], list[list[float]]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for task, ended in zip(tasks, tqdm(pool.map(_run, tasks), total=len(tasks)), strict=True):
            runs.setdefault(task[:2], []).append(ended)
    text = page({key: np.array(each) for key, each in runs.items()}, names, options)
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
