"""Compare ladders of three levels with many levels of the same problem, and with Optuna's Hyperband over all of them.

    python -m experiments.many_fidelities --out docs/results/many_fidelities.md

The problems are data sets of LCBench, whose fidelity is a number of epochs from 3 to 51, and two functions of Kandasamy
et al. 2017 (BOCA) with a real fidelity. Each evaluation of our methods is charged in full. A trial of Optuna is one
training that reports on its way, and is charged for as far as it came.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import optuna
from tqdm import tqdm

import bmbo
from bmbo.methods import screening
from bmbo.problem.foreign_spaces import to_optuna
from bmbo.surrogates.exact_gp import JointGP
from bmbo.surrogates.fidelity_gp import FidelityGP
from experiments.methods.own_methods import start_run
from experiments.problems import lcbench

TOP_EVALUATIONS = 15
"""The total cost of a run, in evaluations at the top."""
MARKS = (0.25, 0.5, 1.0)
"""Shares of the total cost at which methods are compared."""
BATCH_SIZE = 1
NUM_RANDOM = 2000
"""Random configurations whose values at the top say what a regret of 1 is."""


@dataclass(frozen=True)
class Task:
    """Hold a problem whose fidelity is a number.

    Attributes:
        space: what is searched.
        low: the roughest fidelity.
        high: the target.
        few: three fidelities, as a user would choose them.
        cost: of an evaluation, as a function of the fidelity.
        evaluate: returns the values of configurations at a fidelity; larger is better.
    """

    space: bmbo.Space
    low: float
    high: float
    few: tuple[float, ...]
    cost: Callable[[float], float]
    evaluate: Callable[[Sequence[Mapping[str, Any]], float], np.ndarray]


def _lcbench(task: str) -> Task:
    def evaluate(configs: Sequence[Mapping[str, Any]], epochs: float) -> np.ndarray:
        points = np.array([[config[name] for name in lcbench.SPACE.names] for config in configs], np.float64)
        return lcbench.accuracies(task, points, int(epochs))

    return Task(lcbench.SPACE, 3, 51, (3, 13, 51), float, evaluate)


def _boca(num: int, function: Callable[[np.ndarray, float], np.ndarray]) -> Task:
    space = bmbo.Space({f"x{place}": bmbo.Float(0.0, 1.0) for place in range(num)})

    def evaluate(configs: Sequence[Mapping[str, Any]], fidelity: float) -> np.ndarray:
        return function(np.array([[config[each] for each in space.names] for config in configs]), fidelity)

    return Task(space, 0.1, 1.0, (0.1, 0.33, 1.0), lambda fidelity: 0.05 + 0.95 * fidelity**3, evaluate)


def branin(points: np.ndarray, fidelity: float) -> np.ndarray:
    """Return minus the Branin function, whose coefficients depend on the fidelity as in BOCA."""
    x, y = 15.0 * points[:, 0] - 5.0, 15.0 * points[:, 1]
    rest = 1.0 - fidelity
    b, c, t = 5.1 / (4 * math.pi**2) - 0.01 * rest, 5.0 / math.pi - 0.1 * rest, 1.0 / (8 * math.pi) + 0.05 * rest
    return -((y - b * x**2 + c * x - 6.0) ** 2 + 10.0 * (1.0 - t) * np.cos(x) + 10.0)


HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(points: np.ndarray, fidelity: float) -> np.ndarray:
    """Return the Hartmann function of six parameters, whose weights depend on the fidelity as in BOCA."""
    weights = np.array([1.0, 1.2, 3.0, 3.2]) - 0.1 * (1.0 - fidelity)
    return np.exp(-(HARTMANN_A * (points[:, None] - HARTMANN_P) ** 2).sum(2)) @ weights


PROBLEMS: dict[str, Callable[[], Task]] = {
    "lcbench_126026": partial(_lcbench, "126026"),
    "lcbench_167200": partial(_lcbench, "167200"),
    "boca_branin": partial(_boca, 2, branin),
    "boca_hartmann": partial(_boca, 6, hartmann),
}


def ladder_of(task: Task, levels: int | None) -> bmbo.Ladder:
    """Return the three fidelities of a task, or so many of its range, spread evenly over the logarithm."""
    if levels is None:
        return bmbo.Ladder(bmbo.Fidelity(value, cost=task.cost(value)) for value in task.few)
    return bmbo.Ladder(bmbo.FidelityRange(task.low, task.high, log=True, cost=task.cost, levels=levels))


@dataclass
class Run:
    """Hold what a run has found: after each evaluation the cost so far and the best value at the top; and its time."""

    bests: list[tuple[float, float]]
    seconds: float = 0.0

    def best_at(self, cost: float) -> float:
        """Return the best value at the top that was known at a cost."""
        return max((best for spent, best in self.bests if spent <= cost * (1 + 1e-9)), default=-math.inf)


def run_ours(task: Task, seed: int, total: float, *, levels: int | None, surrogate: Any = None) -> Run:
    """Return a run of `screening()` on three fidelities, or on so many levels."""
    problem = bmbo.Problem(task.space, ladder_of(task, levels), maximise=True)
    policy = screening() if surrogate is None else replace(screening(), surrogate=surrogate)
    optimiser = start_run(problem, seed, BATCH_SIZE, [], total, make_policy=lambda: policy)
    found, spent, best = Run([]), 0.0, -math.inf
    while True:
        begun = perf_counter()
        jobs = list(optimiser.ask())
        found.seconds += perf_counter() - begun
        if not jobs:
            return found
        values = [float(task.evaluate([job.config], _value(problem, job.level))[0]) for job in jobs]
        for job, value in zip(jobs, values, strict=True):
            spent += problem.ladder.costs[job.level]
            best = max(best, value) if job.level == problem.ladder.top else best
            found.bests.append((spent, best))
        optimiser.tell(jobs, values)


def _value(problem: bmbo.Problem, level: int) -> float:
    value = problem.ladder[level].value
    assert isinstance(value, int | float)
    return value


def run_hyperband(task: Task, seed: int, total: float) -> Run:
    """Return a run of Optuna's TPE with Hyperband, whose trials report at all levels until they are pruned."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ladder, distributions = ladder_of(task, 100), dict(to_optuna(task.space))
    resource = [max(1, round(float(fidelity.value) / task.low)) for fidelity in ladder.fidelities]
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=resource[-1], reduction_factor=3)
    study = optuna.create_study(
        study_name=f"seed-{seed}",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=pruner,
        direction="maximize",
    )
    found, spent, best = Run([]), 0.0, -math.inf
    while spent < total * (1 - 1e-9):
        trial = study.ask(distributions)
        value, level, seen = -math.inf, 0, set[int]()
        for level, fidelity in enumerate(ladder.fidelities):
            value = float(task.evaluate([trial.params], float(fidelity.value))[0])
            if level < ladder.top and resource[level] not in seen:
                seen.add(resource[level])
                trial.report(value, resource[level])
                if trial.should_prune():
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                    break
        else:
            study.tell(trial, value)
            best = max(best, value) if spent + ladder.costs[-1] <= total * (1 + 1e-9) else best
        spent += ladder.costs[level]
        found.bests.append((spent, best))
    return found


METHODS: dict[str, Callable[[Task, int, float], Run]] = {
    "3 levels": partial(run_ours, levels=None),
    "range": partial(run_ours, levels=100),
    "6 levels, a process each": partial(run_ours, levels=6, surrogate=JointGP()),
    "6 levels, one process": partial(run_ours, levels=6, surrogate=FidelityGP()),
    "12 levels, a process each": partial(run_ours, levels=12, surrogate=JointGP()),
    "12 levels, one process": partial(run_ours, levels=12, surrogate=FidelityGP()),
    "Optuna TPE and Hyperband": run_hyperband,
}


def scale_of(task: Task) -> tuple[float, float]:
    """Return the best and the median value at the top of random configurations."""
    rng = np.random.default_rng(0)
    units = task.space.snap(rng.random((NUM_RANDOM, task.space.dim)))
    values = task.evaluate([task.space.decode(tuple(map(float, unit))) for unit in units], task.high)
    return float(np.max(values)), float(np.median(values))


def _run_task(top_evaluations: int, named: tuple[str, str, int]) -> Run:
    problem, method, seed = named
    task = PROBLEMS[problem]()
    return METHODS[method](task, seed, top_evaluations * task.cost(task.high))


def page(runs: Mapping[tuple[str, str], Sequence[Run]], methods: Sequence[str], options: argparse.Namespace) -> str:
    """Return the page: means over seeds for each problem and over all problems."""
    regrets: dict[tuple[str, str], np.ndarray] = {}
    for problem, make in PROBLEMS.items():
        task = make()
        total = options.top_evaluations * task.cost(task.high)
        best = max(scale_of(task)[0], *(each.best_at(total) for name in methods for each in runs[problem, name]))
        median = scale_of(task)[1]
        for name in methods:
            values = np.array([[each.best_at(mark * total) for mark in MARKS] for each in runs[problem, name]])
            regrets[problem, name] = np.minimum((values - best) / (median - best), 1.0)
    rows: list[list[str]] = []
    for name in methods:
        mean = np.mean([regrets[problem, name].mean(0) for problem in PROBLEMS], 0)
        seconds = np.mean([each.seconds for problem in PROBLEMS for each in runs[problem, name]])
        ends = [f"{regrets[problem, name][:, -1].mean():.4f}" for problem in PROBLEMS]
        shown = f"{seconds:.1f}" if seconds else "-"
        rows.append([name, *(f"{value:.4f}" for value in mean), *ends, shown])
    heads = ["method", *(f"regret at {mark:.0%}" for mark in MARKS), *PROBLEMS, "seconds to choose, a run"]
    head = (
        "*3 levels* is the default on three fidelities that a user would choose (3, 13 and 51, or 0.1, 0.33 and 1). "
        f"*Range* is the default on `FidelityRange(low, high, log=True)`: {_num_levels()} levels. The other rows "
        "compare the two models on the same levels: a process for each level, or one process over all. Each evaluation "
        "is charged in full. A trial of Optuna is one training that reports on its way, charged for as far as it came."
    )
    return f"""# Many fidelities

Made by `python -m experiments.many_fidelities --seeds {options.seeds}`.

{len(PROBLEMS)} problems with {options.seeds} seeds: two data sets of LCBench with 3 to 51 epochs, and Branin and
Hartmann of BOCA with a fidelity from 0.1 to 1. The total cost is that of {options.top_evaluations} evaluations at the
top, and one query is chosen at a time.

{head}

The regret is 0 at the best value that was found by any run or by {NUM_RANDOM} random configurations, and 1 at their
median; a run without a value at the top counts as 1. The first three columns are means over all problems, and those
with names are the regrets at the end.

{_table(heads, rows)}
"""


def _num_levels() -> str:
    num = [ladder_of(make(), 100).num_levels for make in PROBLEMS.values()]
    return f"{min(num)} or {max(num)}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--top-evaluations", type=int, default=TOP_EVALUATIONS, help="what the total cost pays for")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options = parser.parse_args(arguments)
    tasks = [(problem, name, seed) for seed in range(options.seeds) for problem in PROBLEMS for name in options.methods]
    runs: dict[tuple[str, str], list[Run]] = {(problem, name): [] for problem, name, _ in tasks}
    with ProcessPoolExecutor(options.jobs) as pool:
        done = pool.map(partial(_run_task, options.top_evaluations), tasks)
        for (problem, name, _), found in zip(tasks, tqdm(done, total=len(tasks)), strict=True):
            runs[problem, name].append(found)
    text = page(runs, options.methods, options)
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
