"""Compare how methods keep constraints, and what it is worth to learn failures as a constraint.

    python -m experiments.constraints --seeds 5 --out docs/results/constraints.md

All methods may spend the same. Optuna's TPE has constraints and no fidelities, and evaluates at the top alone.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from scipy.optimize import minimize
from tqdm import tqdm

import bmbo
from bmbo.history import History, Outcome
from bmbo.policies import Screening
from bmbo.problem import Ladder, Problem, Space, as_constraints
from bmbo.problem.foreign_spaces import to_optuna
from experiments.problems.troubled_functions import FAMILIES

COSTS = (1.0, 10.0)
TOP_EVALUATIONS = 20
"""The total cost of a run, in evaluations at the top."""

Values = tuple[float, Mapping[str, float]]


@dataclass(frozen=True)
class Constrained:
    """Hold a function with constraints; the lower level adds a wave to the value and to what is measured.

    Attributes:
        size: upper end of each coordinate; the lower one is 0.
        num_params: of the function.
        value: to be minimised.
        limits: each at most 0.
    """

    size: float
    num_params: int
    value: Callable[[np.ndarray], float]
    limits: tuple[Callable[[np.ndarray], float], ...]

    @property
    def problem(self) -> Problem:
        """Return the problem, with two levels."""
        space = Space({f"x{place}": bmbo.Float(0.0, self.size) for place in range(self.num_params)})
        ladder = Ladder([bmbo.Fidelity(place, cost=cost) for place, cost in enumerate(COSTS)])
        names = {f"c{place}": ("<=", 0.0) for place in range(len(self.limits))}
        return Problem(space, ladder, constraints=as_constraints(names))

    def __call__(self, config: Mapping[str, Any], level: int) -> Values:
        """Return the value and what is measured."""
        x = np.array(list(config.values()))
        wave = 0.1 * math.sin(3.0 * x.sum()) * (level == 0)
        return self.value(x) + wave, {f"c{place}": limit(x) + wave for place, limit in enumerate(self.limits)}

    def optimum(self) -> float:
        """Return the best value that keeps the constraints, from many local searches."""
        rng = np.random.default_rng(0)
        rules = [{"type": "ineq", "fun": lambda x, limit=limit: -limit(x)} for limit in self.limits]
        box = [(0.0, self.size)] * self.num_params
        starts = self.size * rng.random((100, self.num_params))
        ends = [minimize(self.value, start, bounds=box, constraints=rules, method="SLSQP") for start in starts]
        return min(float(end.fun) for end in ends if max(limit(end.x) for limit in self.limits) <= 1e-6)


CONSTRAINED: Mapping[str, Constrained] = {
    "gardner": Constrained(
        6.0,
        2,
        lambda x: math.cos(2 * x[0]) * math.cos(x[1]) + math.sin(x[0]),
        (lambda x: math.cos(x[0] + x[1]) + 0.5,),
    ),
    "gramacy": Constrained(
        1.0,
        2,
        lambda x: float(x.sum()),
        (
            lambda x: 1.5 - x[0] - 2 * x[1] - 0.5 * math.sin(2 * math.pi * (x[0] ** 2 - 2 * x[1])),
            lambda x: float(x @ x) - 1.5,
        ),
    ),
    "sphere_4": Constrained(
        1.0, 4, lambda x: float(((x - 0.2) ** 2).sum()), (lambda x: 2.0 - float(x.sum()), lambda x: x[0] - x[1] - 0.1)
    ),
}
"""Problems of Gardner and others (2014) and of Gramacy and others (2016), and one whose optimum is at a border."""


def _wall(config: Mapping[str, Any], level: int) -> float:
    del level
    return math.nan if config["x"] > 0.6 else -config["x"] + (config["y"] - 0.5) ** 2


def _slope(config: Mapping[str, Any], level: int) -> float:
    x, y = config["x"], config["y"]
    wave = 0.1 * math.sin(5 * x) * (level == 0)
    return math.nan if x + y > 1.1 else -x - y + 0.3 * (x - y) ** 2 + wave


@dataclass(frozen=True)
class Failing:
    """Hold a problem in which some runs fail, and its best value."""

    problem: Problem
    value: Callable[[Mapping[str, Any], int], float]
    optimum: float


def _at_border(value: Callable[[Mapping[str, Any], int], float], optimum: float) -> Failing:
    space = Space({"x": bmbo.Float(0.0, 1.0), "y": bmbo.Float(0.0, 1.0)})
    ladder = Ladder([bmbo.Fidelity(place, cost=cost) for place, cost in enumerate(COSTS)])
    return Failing(Problem(space, ladder), value, optimum)


def _robust(name: str) -> Failing:
    benchmark = FAMILIES["robust_failures"][name]()
    return Failing(benchmark.problem, benchmark.evaluate, float(benchmark.optimum or 0.0))


FAILING: Mapping[str, Callable[[], Failing]] = {
    "optimum at a wall": partial(_at_border, _wall, -0.6),
    "optimum at an oblique border": partial(_at_border, _slope, -1.1),
    **{
        name: partial(_robust, name)
        for name in (
            "robust_ackley_4_wall_nan",
            "robust_ackley_4_corner_inf",
            "robust_ackley_4_random_nan",
            "robust_hartmann3_random_nan",
        )
    },
}

PEER = "Optuna TPESampler"
LEARNED, WORST = "failures learned", "failures as worst values"


def driven(problem: Problem, objective: Callable[..., Any], policy: Screening, seed: int) -> History:
    """Return a whole run of the default method."""
    history, carry = History(problem), None
    limited = policy.within(TOP_EVALUATIONS * COSTS[-1], None)
    while True:
        queries, carry = limited.suggest(seed, history, 1, carry)
        if not queries:
            return history
        number, level = len(history.trials), queries[0].level
        found = objective(problem.space.decode(queries[0].unit), level)
        value, measured = found if isinstance(found, tuple) else (found, {})
        outcome = Outcome.of(value, problem.ladder.costs[level])
        history = history.asked(queries[0]).with_outcome(
            number, replace(outcome, measured=tuple(measured.values())) if measured else outcome
        )


def constrained_regret(name: str, method: str, seed: int) -> float:
    """Return how far the best feasible value at the top is from the optimum; NaN if nothing is feasible."""
    case = CONSTRAINED[name]
    if method.startswith("screening"):
        policy, problem = bmbo.screening(), case.problem
        if "top" in method:
            problem = replace(problem, ladder=Ladder([problem.ladder[1]]))
        lowest = 1 if "top" in method else 0
        best = driven(problem, lambda config, level: case(config, level + lowest), policy, seed).best
        return math.nan if best is None else float(best.value or 0.0) - case.optimum()
    return _peer(case, seed) - case.optimum()


def _peer(case: Constrained, seed: int) -> float:
    """Return the best feasible value of Optuna's TPE, which evaluates at the top alone."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def violations(trial: optuna.trial.FrozenTrial) -> Sequence[float]:
        return trial.user_attrs["measured"]

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constraints_func=violations))
    best = math.nan
    for _ in range(TOP_EVALUATIONS):
        trial = study.ask(dict(to_optuna(case.problem.space)))
        value, measured = case(trial.params, 1)
        trial.set_user_attr("measured", list(measured.values()))
        study.tell(trial, value)
        if max(measured.values()) <= 0.0:
            best = value if math.isnan(best) else min(best, value)
    return best


def failing_regret(name: str, method: str, seed: int) -> float:
    """Return how far the best value at the top is from the optimum; NaN if every run at the top failed."""
    case = FAILING[name]()
    policy = replace(bmbo.screening(), learns_failures=method == LEARNED)
    best = driven(case.problem, case.value, policy, seed).best
    return math.nan if best is None else abs(float(best.value or 0.0) - case.optimum)


METHODS = ("screening", "screening, top alone", PEER)


def page(
    found: Mapping[tuple[str, str], Sequence[float]], failed: Mapping[tuple[str, str], Sequence[float]], seeds: int
) -> str:
    """Return the page."""
    first = _table(["problem", *METHODS], [[name, *(_text(found[name, m]) for m in METHODS)] for name in CONSTRAINED])
    rows: list[list[str]] = []
    for name in FAILING:
        one, other = (np.nan_to_num(failed[name, method], nan=np.inf) for method in (LEARNED, WORST))
        counts = f"{int((one < other).sum())}, {int((one > other).sum())}"
        rows.append([name, _text(failed[name, LEARNED]), _text(failed[name, WORST]), counts])
    second = _table(["problem", LEARNED, WORST, "better, worse"], rows)
    return f"""# Constraints and failures

Made by `python -m experiments.constraints --seeds {seeds}`. Each run may spend as much as {TOP_EVALUATIONS} evaluations
at the top, and there are {seeds} seeds. A number is how far the best value at the top that counts is from the optimum:
the median of the seeds, and the mean in brackets. A run without such a value is left out of both, and counted.

## Constraints that are measured

The lower of two levels costs a tenth, and adds a wave to the value and to what is measured. Optuna's TPE has
`constraints_func` and knows no fidelities, so that it evaluates at the top alone; the second column does so too.

{first}

## Failures

The first two problems have their optimum at the border of a region that fails. In `wall_nan` and `corner_inf` the
region is elsewhere, and in `random_nan` 30 % of the runs fail whatever the point. The last column counts the seeds in
which failures that are learned end better, and those in which they end worse.

{second}
"""


def _text(values: Sequence[float]) -> str:
    known = [value for value in values if math.isfinite(value)]
    without = f", {len(values) - len(known)} without" if len(known) < len(values) else ""
    return f"{np.median(known):.3g} ({np.mean(known):.3g}){without}" if known else "none"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *rows])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    seeds = range(options.seeds)
    found = {
        (name, method): [constrained_regret(name, method, seed) for seed in seeds]
        for name in tqdm(CONSTRAINED)
        for method in METHODS
    }
    failed = {
        (name, method): [failing_regret(name, method, seed) for seed in seeds]
        for name in tqdm(FAILING)
        for method in (LEARNED, WORST)
    }
    text = page(found, failed, options.seeds)
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
