"""Compare what good and wrong knowledge about the best values gains and costs: beliefs, and older studies.

    python -m experiments.priors --out docs/results/priors.md

A good belief is near the best point, a wrong one far from it. The peer is SMAC with its piBO acquisition and the same
beliefs, which is left out if it is not installed. A further row shows the default of bmbo with piBO's rule alone: the
belief then fades with the number of evaluations, whatever they say. In the last row there is no belief but an older
study, whose best point is where the belief is. All methods evaluate at the only level there is.
"""

# A peer is imported where a run is made, and may be missing.
# pyright: reportMissingImports=false

import argparse
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import bmbo
from bmbo import Categorical, Float, Likely
from bmbo.acquisition.fading_prior import FadingPrior
from bmbo.synthetic import hartmann3

EVALUATIONS = 30

MARKS = (10, 20, 30)
"""Numbers of evaluations at which methods are compared."""

WIDTH = 0.15

OLDER = 40
"""Trials of the older study, at random points."""

GOOD, NONE, WRONG = "good", "none", "wrong"


@dataclass(frozen=True)
class Believed:
    """Hold a function to minimise, and beliefs about it.

    Attributes:
        name: of the function.
        space: its parameters, without beliefs.
        evaluate: its value; 0 is the minimum.
        beliefs: the values that are believed to be best, by the kind of belief.
    """

    name: str
    space: Mapping[str, Any]
    evaluate: Callable[[Mapping[str, Any]], float]
    beliefs: Mapping[str, Mapping[str, Any]]


def _hartmann(config: Mapping[str, Any]) -> float:
    function = hartmann3()
    return function.optimum - function(config, function.problem.ladder.top)


def _settings(config: Mapping[str, Any]) -> float:
    bumps = 0.05 * (1.0 - np.cos(15.0 * (config["rate"] - 0.62)))
    value = 3.0 * (config["rate"] - 0.62) ** 2 + (config["decay"] - 0.2) ** 2 + bumps
    value += 0.8 * (config["momentum"] - 0.8) ** 2 * (0.5 + config["decay"])
    return float(
        value + {"sgd": 0.12, "adam": 0.0, "lion": 0.3}[config["optimiser"]] * (1.0 - 0.5 * config["momentum"])
    )


_RATES = {name: Float(0.0, 1.0) for name in ("rate", "decay", "momentum")}
PROBLEMS = {
    each.name: each
    for each in (
        Believed(
            "Hartmann, 3 parameters",
            {name: Float(0.0, 1.0) for name in ("x1", "x2", "x3")},
            _hartmann,
            # The best point is (0.115, 0.556, 0.853).
            {GOOD: {"x1": 0.2, "x2": 0.5, "x3": 0.75}, WRONG: {"x1": 0.9, "x2": 0.9, "x3": 0.2}},
        ),
        Believed(
            "settings of a training",
            {**_RATES, "optimiser": Categorical(["sgd", "adam", "lion"])},
            _settings,
            {
                GOOD: {"rate": 0.7, "decay": 0.3, "momentum": 0.7, "optimiser": "adam"},
                WRONG: {"rate": 0.1, "decay": 0.9, "momentum": 0.2, "optimiser": "lion"},
            },
        ),
    )
}


def _ours(problem: Believed, belief: str, seed: int, num: int, prior: FadingPrior) -> list[float]:
    best = problem.beliefs.get(belief, {})
    space = {
        name: replace(param, prior=Likely(best[name], WIDTH)) if name in best else param
        for name, param in problem.space.items()
    }
    study = bmbo.create_study(
        space=space,
        fidelities=bmbo.Fidelity("full", cost=1),
        seed=seed,
        method=replace(bmbo.screening(), prior=prior),
    )
    study.optimize(lambda trial: problem.evaluate(trial.params), n_trials=num, show_progress_bar=False)
    return [float(trial.value) for trial in study.trials if trial.value is not None]


def _learned(problem: Believed, belief: str, seed: int, num: int) -> list[float]:
    """Run the default after an older study of random points, with values that are best where the belief is."""
    best, space = problem.beliefs[belief], bmbo.Space(problem.space)
    older, study = (
        bmbo.create_study(space=space, fidelities=bmbo.Fidelity("full", cost=1), seed=seed) for _ in range(2)
    )
    for unit in space.snap(np.random.default_rng([seed, 7]).random((OLDER, space.dim))).tolist():
        config = space.decode(unit)
        apart = [
            0.3 * (config[name] != value) if isinstance(value, str) else (config[name] - value) ** 2
            for name, value in best.items()
        ]
        older.add_trial(config, sum(apart))
    study.learn_from(older)
    study.optimize(lambda trial: problem.evaluate(trial.params), n_trials=num, show_progress_bar=False)
    return [float(trial.value) for trial in study.trials if trial.value is not None]


def _smac(problem: Believed, belief: str, seed: int, num: int) -> list[float]:
    """Run SMAC's hyperparameter facade, with piBO if there is a belief."""
    from smac import HyperparameterOptimizationFacade, Scenario  # noqa: PLC0415 - a peer, which may be missing
    from smac.acquisition.function import PriorAcquisitionFunction  # noqa: PLC0415
    from smac.runhistory.dataclasses import TrialValue  # noqa: PLC0415

    values: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            _config_space(problem, problem.beliefs.get(belief, {}), seed),
            deterministic=True,
            seed=seed,
            n_trials=num,
            output_directory=Path(folder),
        )
        usual = HyperparameterOptimizationFacade.get_acquisition_function(scenario)
        # The decay that SMAC's own example of piBO has.
        guided = usual if belief == NONE else PriorAcquisitionFunction(usual, decay_beta=num / 10)
        facade = HyperparameterOptimizationFacade(
            scenario, _never_called, acquisition_function=guided, overwrite=True, logging_level=logging.ERROR
        )
        for _ in range(num):
            asked = facade.ask()
            values.append(problem.evaluate(dict(asked.config)))
            facade.tell(asked, TrialValue(cost=values[-1]), save=False)
    return values


def _never_called(config: Any, seed: int = 0) -> float:
    """Stand for the objective, which SMAC is told of by ask and tell."""
    raise NotImplementedError(f"{config} with seed {seed} is asked for and told")


def _config_space(problem: Believed, best: Mapping[str, Any], seed: int) -> Any:
    import ConfigSpace  # noqa: PLC0415 - comes with SMAC

    found = ConfigSpace.ConfigurationSpace(seed=seed)
    for name, param in problem.space.items():
        if isinstance(param, bmbo.Categorical):
            weights = [1.0 / WIDTH if choice == best.get(name) else 1.0 for choice in param.choices]
            found.add(ConfigSpace.CategoricalHyperparameter(name, list(param.choices), weights=weights))
        elif name in best:
            found.add(
                ConfigSpace.NormalFloatHyperparameter(
                    name, mu=best[name], sigma=WIDTH, lower=param.low, upper=param.high
                )
            )
        else:
            found.add(ConfigSpace.UniformFloatHyperparameter(name, param.low, param.high))
    return found


METHODS: Mapping[str, Callable[[Believed, str, int, int], list[float]]] = {
    "screening": lambda problem, belief, seed, num: _ours(problem, belief, seed, num, FadingPrior()),
    "screening, piBO's rule alone": lambda problem, belief, seed, num: _ours(
        problem, belief, seed, num, FadingPrior(strength=num / 10, doubts=False)
    ),
    "screening, learn_from an older study": _learned,
    "SMAC with piBO": _smac,
}


def _run(task: tuple[str, str, str, int, int]) -> list[float]:
    problem, name, belief, seed, num = task
    logging.getLogger("bmbo").setLevel(logging.ERROR)
    best = np.minimum.accumulate(METHODS[name](PROBLEMS[problem], belief, seed, num))
    return [float(best[min(mark, len(best)) - 1]) for mark in MARKS]


def page(found: Mapping[tuple[str, str, str], np.ndarray], names: Sequence[str], options: argparse.Namespace) -> str:
    """Return the page: means over seeds for each problem, method and belief."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("smac", "numpy") if find_spec(name))
    parts = [
        "# Beliefs and older studies",
        f"Made by `python -m experiments.priors --seeds {options.seeds}`, with {versions}.",
        f"Two functions with {options.seeds} seeds each, and {EVALUATIONS} evaluations a run. The tables show the\n"
        "mean of the best value after so many evaluations; the minimum is 0. The good belief is 0.06 to 0.1 of the\n"
        "range off the best point in each parameter, the wrong one is far from it. Both have the width\n"
        f"{WIDTH:g}. The last column counts the seeds in which the method ends better with the belief than without\n"
        f"one, and those in which it ends worse. The older study has {OLDER} random points, and values that are best\n"
        "where the belief is.",
    ]
    for problem in PROBLEMS:
        head = " | ".join(f"after {mark}" for mark in MARKS)
        lines = [f"| method | belief | {head} | better, worse |", f"| --- | --- |{' --- |' * (len(MARKS) + 1)}"]
        for name in names:
            without = found[problem, METHOD_WITHOUT.get(name, name), NONE]
            for belief in (GOOD, NONE, WRONG):
                if (problem, name, belief) not in found:
                    continue
                ended = found[problem, name, belief]
                gap = ended[:, -1] - without[:, -1]
                counts = "-" if belief == NONE else f"{int((gap < 0).sum())}, {int((gap > 0).sum())}"
                means = " | ".join(f"{mean:.4f}" for mean in ended.mean(0))
                lines.append(f"| {name} | {belief} | {means} | {counts} |")
        parts += [f"## {problem[0].upper()}{problem[1:]}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


METHOD_WITHOUT = {"screening, piBO's rule alone": "screening", "screening, learn_from an older study": "screening"}
"""Methods that are the same as another one without a belief."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options = parser.parse_args(arguments)
    names = [name for name in METHODS if "SMAC" not in name or find_spec("smac") is not None]
    tasks = [
        (problem, name, belief, seed, EVALUATIONS)
        for problem in PROBLEMS
        for name in names
        for belief in (GOOD, NONE, WRONG)
        if belief != NONE or name not in METHOD_WITHOUT
        for seed in range(options.seeds)
    ]
    runs: dict[tuple[str, str, str], list[list[float]]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for task, ended in zip(tasks, tqdm(pool.map(_run, tasks), total=len(tasks)), strict=True):
            runs.setdefault(task[:3], []).append(ended)
    text = page({key: np.array(each) for key, each in runs.items()}, names, options)
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
