"""Make problems that show how a method judges cheap levels: useless, misleading and exact ones, few and many.

All problems with the same base have the same top. `levels_<base>_alone` has no other level: it is what a method does
that ignores them.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

import bmbo
from bmbo import synthetic
from bmbo.synthetic import Formula, Synthetic
from experiments.problems.benchmark import Benchmark
from experiments.problems.function_variants import Moved, ackley, rosenbrock

Floats = NDArray[np.float64]

ALONE = "alone"

STEP = 3.0
"""Ratio of the costs of neighbours on ladders with more than two levels."""

TIMES = 1000.0
"""Factor of the costs of the problems that must give the same runs as without it."""


@dataclass(frozen=True)
class Noise:
    """Draw a standard normal number for each point, the same one for the same point; levels differ by their number."""

    level: int

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        return np.array([self._drawn(row) for row in x])

    def _drawn(self, row: Floats) -> float:
        said = np.append(row, self.level).astype(np.float64).tobytes()
        digest = hashlib.blake2b(said, digest_size=8).digest()
        return float(np.random.default_rng(int.from_bytes(digest, "big")).standard_normal())


@dataclass(frozen=True)
class Waves:
    """Evaluate a smooth function on a box that has nothing to do with any other: some waves in each coordinate."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        unit = (x - np.array(self.low)) / (np.array(self.high) - np.array(self.low))
        places = np.arange(unit.shape[1])
        # Rates and phases were chosen among a few for small correlations with the tops. A test checks them.
        return np.sum(np.sin(2 * math.pi * (1.5 + 0.4 * places) * unit + 3.0 + places), axis=1)


@dataclass(frozen=True)
class Negated:
    """Turn the sign of a formula: what is good at the top is bad here."""

    formula: Formula

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        return -self.formula(x)


@dataclass(frozen=True)
class Elsewhere:
    """Evaluate a formula at another place, so that its optimum is elsewhere."""

    formula: Formula
    step: tuple[float, ...]

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        return self.formula(x + np.array(self.step))


@dataclass(frozen=True)
class Condition:
    """Say what is below the top.

    Attributes:
        kind: of the lower levels, a key of `KINDS`.
        costs: of all levels, the top last.
        group: under which the results of several conditions are averaged.
    """

    kind: str
    costs: tuple[float, ...]
    group: str


def _waves(top: Synthetic, level: int) -> Formula:
    del level
    low, high = box_of(top)
    return Waves(low, high)


def box_of(top: Synthetic) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the lower and the upper bounds of a function's parameters."""
    params = [param for _, param in top.problem.space.params if isinstance(param, bmbo.Float)]
    return tuple(param.low for param in params), tuple(param.high for param in params)


def _noise(top: Synthetic, level: int) -> Formula:
    del top
    return Noise(level)


def _negated(top: Synthetic, level: int) -> Formula:
    del level
    return Negated(top.formulas[-1])


def _elsewhere(top: Synthetic, level: int) -> Formula:
    del level
    # A fifth of the cube in every coordinate.
    return Elsewhere(top.formulas[-1], tuple(0.2 * (high - low) for low, high in zip(*box_of(top), strict=True)))


def _exact(top: Synthetic, level: int) -> Formula:
    # The constant tells the levels apart, so that no value of one is a value of the other.
    return Moved(top.formulas[-1], 500.0 + level)


KINDS: Mapping[str, Callable[[Synthetic, int], Formula]] = {
    "noise": _noise,
    "waves": _waves,
    "negated": _negated,
    "elsewhere": _elsewhere,
    "exact": _exact,
}

BASES: Mapping[str, Callable[[], Synthetic]] = {
    "branin": synthetic.branin,
    "hartmann3": synthetic.hartmann3,
    "ackley_4": lambda: ackley("ackley_4", 4, (1, 10)),
    "rosenbrock_4": lambda: rosenbrock("rosenbrock_4", 4, (1, 10)),
}

USELESS, MISLEADING, EXACT = "useless", "misleading", "exact"


def _steps(num_levels: int) -> tuple[float, ...]:
    return tuple(STEP**level for level in range(num_levels))


CONDITIONS: Mapping[str, Condition] = {
    "noise_2": Condition("noise", (1, 2), USELESS),
    "noise_10": Condition("noise", (1, 10), USELESS),
    "noise_1000": Condition("noise", (1, 1000), USELESS),
    "noise_3_levels": Condition("noise", _steps(3), USELESS),
    "noise_6_levels": Condition("noise", _steps(6), USELESS),
    "waves_10": Condition("waves", (1, 10), USELESS),
    "negated_10": Condition("negated", (1, 10), MISLEADING),
    "elsewhere_10": Condition("elsewhere", (1, 10), MISLEADING),
    "exact_2": Condition("exact", (1, 2), EXACT),
    "exact_10": Condition("exact", (1, 10), EXACT),
    "exact_1000": Condition("exact", (1, 1000), EXACT),
    "exact_3_levels": Condition("exact", _steps(3), EXACT),
    "exact_6_levels": Condition("exact", _steps(6), EXACT),
}
"""What is below the top, by the end of the problem's name. The number is the ratio of the costs, or that of levels."""

COSTLIER: Mapping[str, str] = {"waves_10_costs_times_1000": "waves_10", "exact_10_costs_times_1000": "exact_10"}
"""Conditions whose costs are multiplied by `TIMES`, and those that must have the same runs."""


def name_of(base: str, condition: str) -> str:
    """Return the name of a problem."""
    return f"levels_{base}_{condition}"


def _ladder(costs: tuple[float, ...]) -> bmbo.Ladder:
    return bmbo.Ladder(bmbo.Fidelity(f"level {level + 1}", cost=cost) for level, cost in enumerate(costs))


def _made(base: str, condition: str) -> Synthetic:
    top = BASES[base]()
    if condition == ALONE:
        costs, kind = (1.0,), ""
    elif condition in COSTLIER:
        told = CONDITIONS[COSTLIER[condition]]
        costs, kind = tuple(TIMES * cost for cost in told.costs), told.kind
    else:
        costs, kind = CONDITIONS[condition].costs, CONDITIONS[condition].kind
    below = [KINDS[kind](top, level) for level in range(len(costs) - 1)]
    problem = replace(top.problem, ladder=_ladder(costs))
    return replace(top, name=name_of(base, condition), problem=problem, formulas=(*below, top.formulas[-1]))


def _benchmark(base: str, condition: str) -> Benchmark:
    made = _made(base, condition)
    return Benchmark(
        made.name, made.problem, made, made.optimum, f"{base}, {condition.replace('_', ' ')} below the top"
    )


PROBLEMS: dict[str, Callable[[], Benchmark]] = {
    name_of(base, condition): partial(_benchmark, base, condition)
    for base in BASES
    for condition in (ALONE, *CONDITIONS, *COSTLIER)
}
