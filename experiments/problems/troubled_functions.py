"""Make problems with a trouble each: noise, outliers, tails, failures, few or many dimensions, ties and plateaus.

All have two levels with costs of 1 and 10. The low level is the top with smooth waves of a twentieth of its range.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bmbo
from bmbo import synthetic
from bmbo.synthetic import Formula, Synthetic
from experiments.problems.benchmark import Benchmark
from experiments.problems.function_variants import Variant, ackley, rosenbrock, scales_of
from experiments.problems.judged_levels import Waves, box_of

Floats = NDArray[np.float64]

COSTS = (1.0, 10.0)

BIAS = 0.05
"""Size of the waves of the low level, as a share of the range of the top."""

FREEDOM = 1.5
"""Degrees of freedom of outliers: their variance is infinite."""


@dataclass(frozen=True)
class Waved:
    """Add waves to a formula."""

    formula: Formula
    waves: Waves
    size: float

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        return self.formula(x) + self.size * self.waves(x)


def two_levels(top: Synthetic, name: str) -> Synthetic:
    """Return a function with its top and one low level that is a little biased."""
    spread = scales_of(top)[-1][1]
    low = Waved(top.formulas[-1], Waves(*box_of(top)), BIAS * spread)
    ladder = bmbo.Ladder(bmbo.Fidelity(place, cost=cost) for place, cost in enumerate(COSTS))
    problem = replace(top.problem, ladder=ladder)
    return replace(top, name=name, problem=problem, formulas=(low, top.formulas[-1]))


@dataclass(frozen=True)
class Troubled:
    """Make trouble with the values of a function.

    Attributes:
        base: the function.
        outliers: the size of noise with heavy tails, as a share of the range.
        failing: the share of queries, drawn at random, whose value is NaN.
        wall: the first coordinate of the cube above which values are NaN.
        wrong_infinity: the mean of the coordinates of the cube above which values are infinite on the good side, as
            when a loss overflows. It is a failure, and no method may take it for a success.
        num_steps: values are rounded to so many steps of the range, away from the optimum; 0 is no rounding.
        plateau: whether the bad half of the values is replaced by the median.
    """

    base: Synthetic
    outliers: float = 0.0
    failing: float = 0.0
    wall: float = 1.0
    wrong_infinity: float = 1.0
    num_steps: int = 0
    plateau: bool = False

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the value of a configuration at a level."""
        unit = self.base.problem.space.encode(config)
        generator = self._generator(unit, level)
        if unit[0] > self.wall or generator.random() < self.failing:
            return math.nan
        if sum(unit) / len(unit) > self.wrong_infinity:
            return self.base.problem.sign * math.inf
        noise = self.outliers * scales_of(self.base)[level][1] * generator.standard_t(FREEDOM) if self.outliers else 0.0
        return self._clean(config, level) + noise

    def exact(self, config: Mapping[str, Any]) -> float:
        """Return the value of a configuration at the top without noise."""
        return self._clean(config, self.base.problem.ladder.top)

    def _clean(self, config: Mapping[str, Any], level: int) -> float:
        sign, (median, spread) = self.base.problem.sign, scales_of(self.base)[level]
        value = sign * self.base(config, level)
        if self.plateau:
            value = max(value, median)
        if self.num_steps:
            step, best = spread / self.num_steps, sign * self.base.optimum
            # A millionth of a step is rounding.
            value = best - math.ceil((best - value) / step - 1e-6) * step
        return sign * value

    def _generator(self, unit: tuple[float, ...], level: int) -> np.random.Generator:
        digest = hashlib.blake2b(json.dumps([self.base.name, unit, level]).encode(), digest_size=8).digest()
        return np.random.default_rng(int.from_bytes(digest, "big"))


def _ackley(dim: int) -> Synthetic:
    return ackley(f"ackley_{dim}", dim, COSTS)


def _rosenbrock(dim: int) -> Synthetic:
    return rosenbrock(f"rosenbrock_{dim}", dim, COSTS)


BASES: Mapping[str, Callable[[], Synthetic]] = {"hartmann3": synthetic.hartmann3, "ackley_4": partial(_ackley, 4)}

TROUBLES: Mapping[str, Mapping[str, Callable[[Synthetic], Variant | Troubled]]] = {
    "noise": {
        "noise_0": Variant,
        "noise_1": partial(Variant, noise=0.01),
        "noise_10": partial(Variant, noise=0.1),
    },
    "tails": {
        "bad_tail": partial(Variant, tail=20.0),
        "outliers": partial(Troubled, outliers=0.05),
    },
    "failures": {
        "corner_inf": partial(Variant, corner=0.6),
        "random_nan": partial(Troubled, failing=0.3),
        "wall_nan": partial(Troubled, wall=0.7),
        "wrong_inf": partial(Troubled, wrong_infinity=0.7),
    },
    "ties": {
        "steps": partial(Troubled, num_steps=8),
        "plateau": partial(Troubled, plateau=True),
    },
}
"""What is done to each base, by the kind of trouble."""

DIMENSIONS: Mapping[str, Callable[[], Synthetic]] = {
    "ackley_1": partial(_ackley, 1),
    "ackley_5": partial(_ackley, 5),
    "ackley_20": partial(_ackley, 20),
    "ackley_50": partial(_ackley, 50),
    "rosenbrock_2": partial(_rosenbrock, 2),
    "rosenbrock_10": partial(_rosenbrock, 10),
    "rosenbrock_50": partial(_rosenbrock, 50),
}


def _benchmark(
    name: str, base: Callable[[], Synthetic], trouble: Callable[[Synthetic], Variant | Troubled]
) -> Benchmark:
    made = trouble(two_levels(base(), name))
    noisy = bool(made.noise if isinstance(made, Variant) else made.outliers)
    said = name.removeprefix("robust_").replace("_", " ")
    return Benchmark(
        name, made.base.problem, made, made.base.optimum, f"robustness: {said}", exact=made.exact if noisy else None
    )


FAMILIES: dict[str, dict[str, Callable[[], Benchmark]]] = {
    f"robust_{kind}": {
        f"robust_{base}_{name}": partial(_benchmark, f"robust_{base}_{name}", make, trouble)
        for base, make in BASES.items()
        for name, trouble in troubles.items()
    }
    for kind, troubles in TROUBLES.items()
} | {
    "robust_dimensions": {
        f"robust_{name}": partial(_benchmark, f"robust_{name}", make, Variant) for name, make in DIMENSIONS.items()
    }
}
