"""Compare what methods recommend where values are noisy: judged by the true value, which no method sees.

    python -m experiments.noise --seeds 5 --out docs/results/noise.md

All methods may spend the same. `noisy=True` is the default method told that values are noisy. The peers are Optuna's
TPE and, if PyTorch is installed, its Gaussian process. They know no fidelities, evaluate at the top alone, and
recommend the best value that they observed.
"""

import argparse
import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from tqdm import tqdm

import bmbo
from bmbo import synthetic
from bmbo.history import History, Outcome
from bmbo.problem import Ladder, Problem, Space
from bmbo.problem.foreign_spaces import to_optuna
from experiments.problems.function_variants import scales_of
from experiments.reporting.paired_statistics import interval

TOP_EVALUATIONS = 30
"""The total cost of a run, in evaluations at the top."""

SHARES = (0.25, 0.5, 1.0)
"""Where methods are compared: shares of the total cost."""

NOISES: Mapping[str, tuple[float, float]] = {
    "1 %": (0.01, 0.01),
    "10 %": (0.1, 0.1),
    "30 %": (0.3, 0.3),
    "5 %, below the top 30 %": (0.05, 0.3),
}
"""The deviation of the noise at the top and below it, as shares of the range of the level."""

NOISY, AS_IT_IS, LUCKIEST = "noisy=True", "default", "default, best observed"
TPE, PEER_GP = "Optuna TPE", "Optuna GP"

SAME = 1e-4
"""Regrets that differ by less than this share of the range count as the same."""

Config = Mapping[str, Any]
Found = Mapping[tuple[str, str, str], Mapping[int, Sequence[float]]]
"""Regrets at the shares of the cost, by noise, function and method, and then by seed."""


@dataclass(frozen=True)
class Function:
    """Hold a function, its best value at the top, and the range of each level."""

    problem: Problem
    value: Callable[[Config, int], float]
    optimum: float
    ranges: tuple[float, ...]

    def observed(self, config: Config, level: int, noise: str, drawn_by: Sequence[Any]) -> float:
        """Return a noisy value: another one for each repeat and seed (`drawn_by`), the same for every method."""
        top = level == self.problem.ladder.top
        said = json.dumps([noise, sorted(config.items()), level, *drawn_by])
        digest = hashlib.blake2b(said.encode(), digest_size=8).digest()
        drawn = np.random.default_rng(int.from_bytes(digest, "big")).standard_normal()
        return self.value(config, level) + float(drawn) * NOISES[noise][0 if top else 1] * self.ranges[level]

    def regret(self, config: Config) -> float:
        """Return how far the true value of a configuration is from the optimum, as a share of the range."""
        return abs(self.value(config, self.problem.ladder.top) - self.optimum) / self.ranges[-1]


def _settings(config: Config, level: int) -> float:
    """Return the loss of a training with few settings, most of them choices and whole numbers."""
    layers, width = config["layers"], config["width"]
    value = 0.6 * (math.log10(config["rate"]) + 2.4) ** 2 + 0.15 * abs(layers - 3) + 0.1 * (width - 5) ** 2 / 4
    value += {"sgd": 0.25, "adam": 0.0, "lion": 0.4}[config["optimiser"]] * (1.0 + 0.2 * (layers - 3))
    return value + (0.2 * math.sin(3.0 * layers + width) if level == 0 else 0.0)


def _made_of_settings() -> Function:
    space = Space(
        {
            "rate": bmbo.Categorical([1e-4, 1e-3, 4e-3, 1e-2, 1e-1], ordered=True),
            "layers": bmbo.Int(1, 6),
            "width": bmbo.Int(1, 8),
            "optimiser": bmbo.Categorical(["sgd", "adam", "lion"]),
        }
    )
    problem = Problem(space, Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]))
    points = space.snap(np.random.default_rng(0).random((2000, space.dim))).tolist()
    values = np.array([[_settings(space.decode(point), level) for point in points] for level in range(2)])
    low, high = np.quantile(values, [0.01, 0.99], axis=1)
    return Function(problem, _settings, float(values[1].min()), tuple((high - low).tolist()))


@cache
def function_of(name: str) -> Function:
    """Return a function by its name."""
    if name == "settings":
        return _made_of_settings()
    made: synthetic.Synthetic = getattr(synthetic, name)()
    return Function(made.problem, made, made.optimum, tuple(spread for _, spread in scales_of(made)))


FUNCTIONS = ("forrester", "branin", "currin", "hartmann3", "settings")


def _ours(name: str, noise: str, seed: int, *, noisy: bool) -> Mapping[str, list[float]]:
    """Return the regrets of what the default recommends, told of noise or not, and of its best observed trial."""
    function = function_of(name)
    problem = replace(function.problem, noisy=noisy)
    costs = problem.ladder.costs
    budget = TOP_EVALUATIONS * costs[-1]
    policy = bmbo.screening().within(budget, None)
    history, carry = History(problem), None
    found: list[Config] = []
    lucky: list[Config] = []
    while True:
        queries, carry = policy.suggest(seed, history, 1, carry)
        spent = history.spent + (costs[queries[0].level] if queries else math.inf)
        while len(found) < len(SHARES) and spent > SHARES[len(found)] * budget * (1 + 1e-9):
            recommended, carry = policy.recommendation(seed, history, carry)
            found.append(problem.space.decode(recommended.unit))
            best = history.best
            lucky.append(found[-1] if best is None else problem.space.decode(best.query.unit))
        if not queries:
            break
        level, number = queries[0].level, len(history.trials)
        history = history.asked(queries[0])
        repeat = history.repeats.get(number, 0)
        value = function.observed(problem.space.decode(queries[0].unit), level, noise, [name, repeat, seed])
        history = history.with_outcome(number, Outcome.of(value, costs[level]))
    regrets = [function.regret(config) for config in found]
    return {NOISY: regrets} if noisy else {AS_IT_IS: regrets, LUCKIEST: [function.regret(each) for each in lucky]}


def _peer(name: str, noise: str, seed: int, method: str) -> Mapping[str, list[float]]:
    """Return the regrets of what a sampler of Optuna observed to be best, at the top alone."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    function = function_of(name)
    problem, top = function.problem, function.problem.ladder.top
    sampler = optuna.samplers.TPESampler(seed=seed) if method == TPE else optuna.samplers.GPSampler(seed=seed)
    study = optuna.create_study(direction="maximize" if problem.maximise else "minimize", sampler=sampler)
    distributions, seen, found = dict(to_optuna(problem.space)), list[Config](), list[float]()
    for number in range(1, TOP_EVALUATIONS + 1):
        trial = study.ask(distributions)
        config = dict(trial.params)
        study.tell(trial, function.observed(config, top, noise, [name, seen.count(config), seed]))
        seen.append(config)
        if number in [round(share * TOP_EVALUATIONS) for share in SHARES]:
            found.append(function.regret(study.best_params))
    return {method: found}


def _run(task: tuple[str, str, str, int]) -> Mapping[str, list[float]]:
    name, noise, method, seed = task
    logging.getLogger("bmbo").setLevel(logging.ERROR)
    if method in (NOISY, AS_IT_IS):
        return _ours(name, noise, seed, noisy=method == NOISY)
    return _peer(name, noise, seed, method)


def page(rows: Sequence[Mapping[str, Any]], command: str) -> str:
    """Return the page from the runs: for each noise a table of mean regrets, and differences seed by seed."""
    found: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for row in rows:
        for method, regrets in row["regrets"].items():
            found.setdefault((row["noise"], row["function"], method), {})[row["seed"]] = regrets
    methods = [each for each in (NOISY, AS_IT_IS, LUCKIEST, PEER_GP, TPE) if any(key[2] == each for key in found)]
    seeds = len({row["seed"] for row in rows})
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("optuna", "torch", "numpy") if find_spec(name))
    parts = [
        "# Noise",
        f"Made by `{command}`, with {versions}.",
        f"Five functions with {seeds} seeds; `settings` has few values of each of four parameters. The tables say how\n"
        "many runs there are: one for each function and seed, unless the command was cut short. A run\n"
        f"may spend {TOP_EVALUATIONS} evaluations at the top. The noise is Gaussian, and its deviation is given as a\n"
        "share of the range of values. A number is the distance of the true value of what is recommended from the\n"
        "optimum, as a percentage of the range: the mean over functions and seeds. `default, best observed` is what\n"
        "`best_trial` says without `noisy=True`. Optuna's samplers recommend their best observed value too, and\n"
        "evaluate at the top alone.",
        "## What is recommended",
        _regrets(found, methods),
        "## Differences to `noisy=True`",
        "The regret of the other method minus that of `noisy=True` at the end, in percent of the range, seed by seed:\n"
        "the mean over functions and seeds with its 95 % bootstrap interval. Above zero, `noisy=True` is better. The\n"
        "last column counts the runs in which it is better and worse.",
        _differences(found, methods),
        "## Function by function, at the end",
        _by_function(found, methods),
    ]
    return "\n\n".join(parts) + "\n"


def _regrets(found: Found, methods: Sequence[str]) -> str:
    lines = [["noise", "method", "runs", *(f"{share:.0%} of the cost" for share in SHARES)]]
    for noise in NOISES:
        for method in methods:
            runs = [run for key, each in found.items() if key[0] == noise and key[2] == method for run in each.values()]
            if runs:
                lines.append([noise, method, str(len(runs)), *(f"{100 * mean:.1f}" for mean in np.mean(runs, axis=0))])
    return _table(lines)


def _differences(found: Found, methods: Sequence[str]) -> str:
    lines = [["noise", "method", "pairs", "difference", "95 % interval", "better, worse"]]
    for noise in NOISES:
        for method in methods[1:]:
            gaps = [
                other[seed][-1] - own[seed][-1]
                for name in FUNCTIONS
                for own in [found.get((noise, name, NOISY), {})]
                for other in [found.get((noise, name, method), {})]
                for seed in sorted(own.keys() & other.keys())
            ]
            if gaps:
                each = interval(100.0 * np.array(gaps))
                counts = f"{sum(gap > SAME for gap in gaps)}, {sum(gap < -SAME for gap in gaps)}"
                ends = f"{each.low:.1f} to {each.high:.1f}"
                lines.append([noise, method, str(len(gaps)), f"{each.mean:.1f}", ends, counts])
    return _table(lines)


def _by_function(found: Found, methods: Sequence[str]) -> str:
    lines = [["noise", "method", *FUNCTIONS]]
    for noise in NOISES:
        for method in methods:
            cells = [found.get((noise, name, method), {}) for name in FUNCTIONS]
            if any(cells):
                means = [f"{100 * np.mean([run[-1] for run in each.values()]):.1f}" if each else "-" for each in cells]
                lines.append([noise, method, *means])
    return _table(lines)


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=Path, help="keep each run in this file, and do not repeat those that it has")
    parser.add_argument("--page-only", action="store_true", help="make the page from the runs that are kept")
    options = parser.parse_args(arguments)
    records: Path | None = options.records
    lines = records.read_text().splitlines() if records is not None and records.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    known = {(row["function"], row["noise"], row["method"], row["seed"]) for row in rows}
    tasks = [
        (name, noise, method, seed)
        for group in ((NOISY, AS_IT_IS, TPE), (PEER_GP,) if find_spec("torch") else ())  # the slow one last
        for seed in range(options.seeds)
        for noise in NOISES
        for name in FUNCTIONS
        for method in group
    ]
    for task in [] if options.page_only else tqdm([task for task in tasks if task not in known]):
        row = {**dict(zip(("function", "noise", "method", "seed"), task, strict=True)), "regrets": dict(_run(task))}
        rows.append(row)
        if options.records is not None:
            with options.records.open("a") as file:
                file.write(json.dumps(row) + "\n")
    text = page(rows, f"python -m experiments.noise --seeds {options.seeds}")
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
