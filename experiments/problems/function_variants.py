"""Make harder problems from functions with a known optimum: noise, bad tails, divergence, costs and dimensions.

`Variant` changes the values of a function and leaves its optimum where it is. The functions of many dimensions are
published ones (Ackley 1987, Rosenbrock 1960, Styblinski and Tang 1990). Their cheap levels are biased: the function is
moved and has another shape.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bmbo
from bmbo import synthetic
from bmbo.synthetic import Formula, Synthetic
from experiments.problems.benchmark import Benchmark

Floats = NDArray[np.float64]

NUM_POINTS = 2000
"""Random points that measure the range and the median of each level."""

SHARES = (0.01, 0.99)
"""The range of a level reaches from one of these quantiles to the other, because extremes are a matter of chance."""


@dataclass(frozen=True)
class Variant:
    """Change the values of a function.

    Losses are distances to the optimum. A change applies at every level, with the range and the median of that level.

    Attributes:
        base: the function.
        noise: the standard deviation of the noise, as a share of the range. It is drawn from a hash of the
            configuration and the level, so that the same query has the same value.
        tail: how much the bad half of the losses is stretched: the exponent at one range beyond the median. The order
            of the values stays.
        corner: the mean of the first two coordinates of the cube beyond which values are not finite; 1 is nowhere.
            Each level below the top has 0.05 more, as a training that is cut short diverges less often.
    """

    base: Synthetic
    noise: float = 0.0
    tail: float = 0.0
    corner: float = 1.0

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the value of a configuration at a level, noise included; infinity on the bad side if it diverges."""
        return self._changed(config, level) + self.noise * self._scale(level)[1] * self._normal(config, level)

    def exact(self, config: Mapping[str, Any]) -> float:
        """Return the value of a configuration at the top without noise."""
        return self._changed(config, self.base.problem.ladder.top)

    def _changed(self, config: Mapping[str, Any], level: int) -> float:
        problem = self.base.problem
        unit = problem.space.encode(config)
        if sum(unit[:2]) / 2 > self.corner + 0.05 * (problem.ladder.top - level):
            return -problem.sign * math.inf
        value = self.base(config, level)
        if not self.tail:
            return value
        median, spread = self._scale(level)
        beyond = (median - problem.sign * value) / spread
        if beyond <= 0:
            return value
        # The slope is 1 at the median, so that a model sees no kink.
        return problem.sign * (median - spread * math.expm1(self.tail * beyond) / self.tail)

    def _normal(self, config: Mapping[str, Any], level: int) -> float:
        if not self.noise:
            return 0.0
        said = json.dumps([self.base.name, self.base.problem.space.encode(config), level])
        digest = hashlib.blake2b(said.encode(), digest_size=8).digest()
        return float(np.random.default_rng(int.from_bytes(digest, "big")).standard_normal())

    def _scale(self, level: int) -> tuple[float, float]:
        """Return the median and the range of a level, with the sign that makes larger values better."""
        return scales_of(self.base)[level]


@cache
def scales_of(base: Synthetic) -> tuple[tuple[float, float], ...]:
    """Return the median and the range of each level, with the sign that makes larger values better."""
    space, generator = base.problem.space, np.random.default_rng(0)
    configs = [space.decode(tuple(unit)) for unit in generator.random((NUM_POINTS, space.dim))]
    points = np.array([[config[name] for name in space.names] for config in configs], np.float64)
    found: list[tuple[float, float]] = []
    for level in range(base.problem.ladder.num_levels):
        values = base.problem.sign * base.values(points, level)
        low, high = np.quantile(values, SHARES)
        found.append((float(np.median(values)), float(high - low)))
    return tuple(found)


@dataclass(frozen=True)
class Ackley:
    """Evaluate Ackley's function: many shallow holes around one deep one."""

    centre: tuple[float, ...]
    depth: float = 20.0
    waves: float = 1.0

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        moved = x - np.array(self.centre)
        bowl = -self.depth * np.exp(-0.2 * np.sqrt(np.mean(moved**2, axis=1)))
        return bowl - np.exp(self.waves * np.mean(np.cos(2 * math.pi * moved), axis=1)) + self.depth + math.e


@dataclass(frozen=True)
class Rosenbrock:
    """Evaluate Rosenbrock's function: a long curved valley."""

    steepness: float = 100.0
    shift: float = 0.0

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        moved = x - self.shift
        left, right = moved[:, :-1], moved[:, 1:]
        return np.sum(self.steepness * (right - left**2) ** 2 + (1 - left) ** 2, axis=1)


@dataclass(frozen=True)
class StyblinskiTang:
    """Evaluate the function of Styblinski and Tang: a sum over coordinates with two holes each."""

    tilt: float = 5.0

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        return np.sum(x**4 - 16 * x**2 + self.tilt * x, axis=1) / 2


@dataclass(frozen=True)
class Waves:
    """Evaluate a smooth function that has nothing to do with any other."""

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        rates = np.linspace(0.7, 2.3, x.shape[1])
        return np.sum(np.sin(x * rates + 1.3), axis=1)


@dataclass(frozen=True)
class Moved:
    """Add a constant to a formula."""

    formula: Formula
    constant: float

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        return self.formula(x) + self.constant


def _ladder(*costs: float) -> bmbo.Ladder:
    return bmbo.Ladder(bmbo.Fidelity(f"level {level + 1}", cost=cost) for level, cost in enumerate(costs))


def _boxed(
    name: str, half: float, formulas: Sequence[Formula], costs: Sequence[float], optimiser: Sequence[float]
) -> Synthetic:
    """Return a function that is minimised on a cube around zero."""
    space = bmbo.Space({f"x{place + 1}": bmbo.Float(-half, half) for place in range(len(optimiser))})
    best = np.array([optimiser], np.float64)
    return Synthetic(
        name=name,
        problem=bmbo.Problem(space, _ladder(*costs), maximise=False),
        formulas=tuple(formulas),
        optimum=float(formulas[-1](best)[0]),
        optimisers=(dict(zip(space.names, map(float, optimiser), strict=True)),),
    )


def _centre(dim: int, part: float) -> tuple[float, ...]:
    """Return a point that is not the middle of the cube, where many methods begin, and not on its diagonal."""
    return tuple(part * math.cos(2.0 * place + 0.5) for place in range(dim))


def ackley(name: str, dim: int, costs: Sequence[float], *, cheap: Sequence[Formula] | None = None) -> Synthetic:
    """Return Ackley's function with biased low levels, or others."""
    half, centre = 5.0, _centre(dim, 2.0)
    levels = len(costs)
    biased = [
        # Each step down moves the hole by a thirtieth of the cube and makes the waves weaker.
        Ackley(tuple(each + 0.3 * steps for each in centre), depth=20.0 - 2 * steps, waves=1.0 / (1 + steps))
        for steps in range(levels - 1, 0, -1)
    ]
    return _boxed(name, half, [*(cheap or biased), Ackley(centre)], costs, centre)


def rosenbrock(name: str, dim: int, costs: Sequence[float], *, cheap: Sequence[Formula] | None = None) -> Synthetic:
    """Return Rosenbrock's function with biased low levels, or others."""
    biased = [Rosenbrock(100.0 / 3**steps, 0.1 * steps) for steps in range(len(costs) - 1, 0, -1)]
    return _boxed(name, 2.5, [*(cheap or biased), Rosenbrock()], costs, [1.0] * dim)


def _styblinski_tang(name: str, dim: int, costs: Sequence[float]) -> Synthetic:
    biased = [StyblinskiTang(5.0 - 6.0 * steps) for steps in range(len(costs) - 1, 0, -1)]
    # The smallest root of 4 x^3 - 32 x + 5, by Newton's method.
    return _boxed(name, 5.0, [*biased, StyblinskiTang()], costs, [-2.9035340277711775] * dim)


def _named(base: Synthetic, name: str, *levels: int, costs: Sequence[float] = ()) -> Synthetic:
    """Return a function under another name, with some of its levels only, and other costs."""
    if not levels:
        return replace(base, name=name)
    formulas = tuple(base.formulas[level] for level in levels)
    return replace(base, name=name, formulas=formulas, problem=replace(base.problem, ladder=_ladder(*costs)))


@dataclass(frozen=True)
class _Plan:
    make: Callable[[str], Variant]
    source: str


def _noisy(make: Callable[[], Synthetic], share: float) -> Callable[[str], Variant]:
    return lambda name: Variant(_named(make(), name), noise=share)


PLANS: Mapping[str, _Plan] = {
    "forrester_noise_10": _Plan(_noisy(synthetic.forrester, 0.1), "Forrester with noise of 10 % of the range"),
    "branin_noise_10": _Plan(_noisy(synthetic.branin, 0.1), "Branin with noise of 10 % of the range"),
    "hartmann3_noise_1": _Plan(_noisy(synthetic.hartmann3, 0.01), "Hartmann 3 with noise of 1 % of the range"),
    "hartmann6_noise_1": _Plan(_noisy(synthetic.hartmann6, 0.01), "Hartmann 6 with noise of 1 % of the range"),
    "park_tail": _Plan(lambda name: Variant(_named(synthetic.park(), name), tail=12.0), "Park with a heavy bad tail"),
    "levy_tail": _Plan(lambda name: Variant(_named(synthetic.levy(), name), tail=20.0), "Levy with a heavy bad tail"),
    "borehole_corner": _Plan(
        lambda name: Variant(_named(synthetic.borehole(), name), corner=0.62), "Borehole that diverges in a corner"
    ),
    "rosenbrock_5_corner": _Plan(
        lambda name: Variant(rosenbrock(name, 5, (1, 4, 16)), corner=0.76), "Rosenbrock that diverges in a corner"
    ),
    "branin_costs_2": _Plan(
        lambda name: Variant(_named(synthetic.branin(), name, 1, 2, costs=(1, 2))), "Branin, costs 1:2"
    ),
    "hartmann3_costs_1000": _Plan(
        lambda name: Variant(_named(synthetic.hartmann3(), name, 0, 2, costs=(1, 1000))), "Hartmann 3, costs 1:1000"
    ),
    "ackley_10": _Plan(lambda name: Variant(ackley(name, 10, (1, 6, 30))), "Ackley, biased low levels"),
    "ackley_20": _Plan(lambda name: Variant(ackley(name, 20, (1, 10))), "Ackley, a biased low level"),
    "ackley_5_useless": _Plan(
        lambda name: Variant(ackley(name, 5, (1, 10), cheap=[Waves()])), "Ackley with a cheap level that tells nothing"
    ),
    "rosenbrock_8": _Plan(lambda name: Variant(rosenbrock(name, 8, (1, 5, 25))), "Rosenbrock, biased low levels"),
    "rosenbrock_4_exact": _Plan(
        lambda name: Variant(rosenbrock(name, 4, (1, 20), cheap=[Moved(Rosenbrock(), 500.0)])),
        "Rosenbrock with a cheap level that is exact up to a constant",
    ),
    "styblinski_tang_12": _Plan(
        lambda name: Variant(_styblinski_tang(name, 12, (1, 8))), "Styblinski and Tang, a misleading low level"
    ),
}


def _make(name: str) -> Benchmark:
    plan = PLANS[name]
    variant = plan.make(name)
    base = variant.base
    return Benchmark(
        name, base.problem, variant, base.optimum, plan.source, exact=variant.exact if variant.noise else None
    )


PROBLEMS: dict[str, Callable[[], Benchmark]] = {name: partial(_make, name) for name in PLANS}
