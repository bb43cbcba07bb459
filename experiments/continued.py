"""Compare methods where training continues: a level costs only the difference to a lower one of the same configuration.

    python -m experiments.continued --out docs/results/continued.md

The problems are data sets of LCBench, whose fidelities are epochs of one training. Every method is charged the same
way: whoever asks for a configuration that was trained for fewer epochs pays the missing ones. The comparison is kept
apart from the suites, which charge each level in full.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import bmbo
from bmbo.history.prices import Prices
from experiments.harness.method_interface import Factory, Job
from experiments.methods import METHODS
from experiments.problems import lcbench, reference_values
from experiments.problems.benchmark import Benchmark
from experiments.problems.suite import REPORT, half_of

NUM_PROBLEMS = 2
"""The first data sets of the half of LCBench that no method was tuned on."""

TOP_EVALUATIONS = 20
"""The total cost of a run, in trainings up to the top."""

MARKS = (0.25, 0.5, 1.0)
"""Shares of the total cost at which methods are compared."""

CONTINUES, DEFAULT = "screening, continues=True", "screening"
PEER = "optuna_tpe_hyperband"
NAMES = (CONTINUES, DEFAULT, PEER)


@dataclass
class Run:
    """Hold what a run has spent and found.

    Attributes:
        spent: the cost of all evaluations.
        bests: after each evaluation, the cost so far and the best value at the top.
        above: evaluations above the lowest level.
        continued: of these, how many went on from a lower level.
        trained: the levels at which each configuration was trained.
    """

    spent: float = 0.0
    bests: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    above: int = 0
    continued: int = 0
    trained: dict[tuple[float, ...], dict[int, int]] = field(default_factory=dict[tuple[float, ...], dict[int, int]])

    def evaluate(self, benchmark: Benchmark, job: Job) -> float:
        """Return the value of a job, and count what it costs."""
        problem = benchmark.problem
        unit, top = problem.space.encode(job.config), problem.ladder.top
        price = Prices(problem.ladder.costs, self.trained).of(unit, job.level)
        value = benchmark.evaluate(job.config, job.level)
        self.spent += price
        self.above += job.level > 0
        self.continued += price < problem.ladder.costs[job.level]
        if math.isfinite(value):
            self.trained.setdefault(unit, {})[job.level] = len(self.bests)
        best = self.bests[-1][1] if self.bests else -math.inf
        self.bests.append((self.spent, max(best, value) if job.level == top and math.isfinite(value) else best))
        return value

    def best_at(self, cost: float) -> float:
        """Return the best value at the top that was known at a cost."""
        return max((best for spent, best in self.bests if spent <= cost * (1 + 1e-9)), default=-math.inf)


def factory_of(name: str) -> Callable[[bmbo.Problem], tuple[bmbo.Problem, Factory]]:
    """Return what a method is told of a problem, and how it starts."""
    if name == CONTINUES:
        return lambda problem: (replace(problem, continues=True), METHODS[DEFAULT].factory)
    return lambda problem: (problem, METHODS[name].factory)


def run(problem: str, name: str, seed: int, top_evaluations: int) -> Run:
    """Return one run of a method on a problem."""
    benchmark = lcbench.PROBLEMS[problem]()
    total, found = top_evaluations * benchmark.problem.ladder.costs[-1], Run()
    told, factory = factory_of(name)(benchmark.problem)
    optimiser = factory(told, seed, 1, [], total)
    while found.spent < total * (1 - 1e-9):
        jobs = list(optimiser.ask())
        if not jobs:
            break
        optimiser.tell(jobs, [found.evaluate(benchmark, job) for job in jobs])
    return found


def regrets(problem: str, runs: Sequence[Run], top_evaluations: int) -> np.ndarray:
    """Return the normalised regret of runs at each mark, [runs marks]; 1 is the median of random configurations."""
    benchmark, scale = lcbench.PROBLEMS[problem](), reference_values.read()[problem]
    total = top_evaluations * benchmark.problem.ladder.costs[-1]
    values = np.array([[each.best_at(mark * total) for mark in MARKS] for each in runs])
    return np.minimum((values - scale.best) / (scale.median - scale.best), 1.0)


def page(runs: Mapping[tuple[str, str], Sequence[Run]], problems: Sequence[str], options: argparse.Namespace) -> str:
    """Return the page: means over seeds for each problem and over all problems."""
    found = {key: regrets(key[0], each, options.top_evaluations) for key, each in runs.items()}
    rows: list[list[str]] = []
    for name in NAMES:
        mean = np.mean([found[problem, name].mean(0) for problem in problems], 0)
        mine = [each for problem in problems for each in runs[problem, name]]
        above, continued = sum(each.above for each in mine), sum(each.continued for each in mine)
        rows.append([name, *(f"{value:.4f}" for value in mean), f"{continued} of {above}"])
    shown = [f"{mark:.0%}" for mark in MARKS]
    heads = ["method", *(f"regret at {mark}" for mark in shown), "evaluations above the lowest level that continue"]
    each_rows = [
        [problem, *(f"{found[problem, name][:, -1].mean():.4f}" for name in NAMES), _better(found, problem)]
        for problem in problems
    ]
    given = f" --seeds {options.seeds} --problems {options.problems} --top-evaluations {options.top_evaluations}"
    return f"""# Where training continues

Made by `python -m experiments.continued{given}`.

{len(problems)} data sets of LCBench with {options.seeds} seeds. The fidelities are 3, 13 and 51 epochs of one training,
and the total cost is that of {options.top_evaluations} trainings of 51 epochs. Every method pays only the missing
epochs of a configuration that it trained before. The regret is 0 at the best known value and 1 at the median of random
configurations; a run without a value at the top counts as 1. The peer is Optuna's TPE with Hyperband, whose
configurations climb by design.

{_table(heads, rows)}

The regret at the end by data set. The last column counts the seeds in which `continues=True` ends better than the
default without it, and those in which it ends worse.

{_table(["data set", *NAMES, "better, worse"], each_rows)}
"""


def _better(found: Mapping[tuple[str, str], Any], problem: str) -> str:
    gaps = found[problem, CONTINUES][:, -1] - found[problem, DEFAULT][:, -1]
    return f"{int((gaps < 0).sum())}, {int((gaps > 0).sum())}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--problems", type=int, default=NUM_PROBLEMS, help="how many data sets")
    parser.add_argument("--top-evaluations", type=int, default=TOP_EVALUATIONS, help="what the total cost pays for")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options = parser.parse_args(arguments)
    problems = half_of(lcbench.PROBLEMS, REPORT)[: options.problems]
    tasks = [(problem, name, seed) for seed in range(options.seeds) for problem in problems for name in NAMES]
    runs: dict[tuple[str, str], list[Run]] = {(problem, name): [] for problem in problems for name in NAMES}
    with ProcessPoolExecutor(options.jobs) as pool:
        done = pool.map(partial(_run_task, options.top_evaluations), tasks)
        for (problem, name, _), found in zip(tasks, tqdm(done, total=len(tasks)), strict=True):
            runs[problem, name].append(found)
    text = page(runs, problems, options)
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


def _run_task(top_evaluations: int, task: tuple[str, str, int]) -> Run:
    return run(*task, top_evaluations)


if __name__ == "__main__":
    raise SystemExit(main())
