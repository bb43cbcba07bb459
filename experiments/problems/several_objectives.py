"""Make problems with two to four objectives and a few fidelities, all minimised.

ZDT1 and DTLZ2 are those of Zitzler and others (2000) and of Deb and others (2005). They have no fidelities of their
own: a lower level shifts the best values of the distance parameters and adds a wave to each objective. Branin-Currin is
the one of Irshad and others (2021), whose fidelity is a number. LCBench is a table of trained networks.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bmbo
from bmbo.history.pareto_front import hypervolume, on_front
from bmbo.problem import Ladder, Problem, Space, as_objectives
from experiments.problems import lcbench

Floats = NDArray[np.float64]

SHIFT, WAVE = 0.1, 0.1
"""How far the lowest level of ZDT1 and DTLZ2 is off."""


@dataclass(frozen=True)
class SeveralObjectives:
    """Hold a problem with several objectives.

    Attributes:
        space: what is searched.
        fidelities: from the roughest to the one that counts.
        values: of a configuration at a fidelity, all minimised.
        reference: the values that are just not good enough.
        best_volume: the hypervolume of the whole front.
    """

    space: Space
    fidelities: tuple[bmbo.Fidelity, ...]
    values: Callable[[Mapping[str, Any], Any], tuple[float, ...]]
    reference: tuple[float, ...]
    best_volume: float

    @property
    def num_objectives(self) -> int:
        """Return how many objectives there are."""
        return len(self.reference)

    @property
    def problem(self) -> Problem:
        """Return the problem for methods of bmbo, without its reference point."""
        return self.problem_with(None)

    def problem_with(self, reference: tuple[float, ...] | None) -> Problem:
        """Return the problem for methods of bmbo, with a reference point or without one."""
        objectives = as_objectives(["minimize"] * self.num_objectives, reference)
        return Problem(self.space, Ladder(self.fidelities), objectives=objectives)

    @property
    def top(self) -> bmbo.Fidelity:
        """Return the fidelity that counts."""
        return self.fidelities[-1]


def _zdt1(config: Mapping[str, Any], fidelity: float) -> tuple[float, ...]:
    x, off = np.array(list(config.values())), 1.0 - fidelity
    distance = 1.0 + 9.0 * float(np.abs(x[1:] - SHIFT * off).mean())
    second = distance * (1.0 - math.sqrt(x[0] / distance))
    wave = WAVE * off * math.sin(6.0 * float(x.sum()))
    return float(x[0]) + wave, second - wave


def _dtlz2(config: Mapping[str, Any], fidelity: float, *, size: int) -> tuple[float, ...]:
    x, off = np.array(list(config.values())), 1.0 - fidelity
    distance = 1.0 + float(((x[size - 1 :] - 0.5 - SHIFT * off) ** 2).sum())
    angles, found = 0.5 * math.pi * x[: size - 1], np.full(size, distance)
    for place in range(size):
        found[place] *= np.prod(np.cos(angles[: size - 1 - place]))
        if place:
            found[place] *= math.sin(angles[size - 1 - place])
    waves = WAVE * off * np.sin(6.0 * x.sum() + np.arange(size))
    return tuple(float(each) for each in found + waves)


def _branin_currin(config: Mapping[str, Any], fidelity: float) -> tuple[float, ...]:
    x1, x2, off = config["x0"], config["x1"], 1.0 - fidelity
    x11, x22 = 15.0 * x1 - 5.0, 15.0 * x2
    b, c, t = 5.1 / (4 * math.pi**2) - 0.01 * off, 5 / math.pi - 0.1 * off, 1 / (8 * math.pi) + 0.05 * off
    branin = (x22 - b * x11**2 + c * x11 - 6.0) ** 2 + 10.0 * (1.0 - t) * math.cos(x11) + 10.0
    above = 2300 * x1**3 + 1900 * x1**2 + 2092 * x1 + 60
    below = 100 * x1**3 + 500 * x1**2 + 4 * x1 + 20
    damped = math.exp(-1.0 / (2.0 * x2)) if x2 > 0.0 else 0.0
    currin = (1.0 - 0.1 * off * damped) * above / below
    return (branin - 21.0) / 22.0, (currin - 14.0) / 15.0


def _lcbench(config: Mapping[str, Any], fidelity: int, *, task: str) -> tuple[float, ...]:
    points = np.array([[config[name] for name in lcbench.SPACE.names]], np.float64)
    return tuple(float(each) for each in error_and_seconds(task, points, fidelity)[0])


def error_and_seconds(task: str, points: Floats, epoch: int) -> Floats:
    """Return the error in per cent and the logarithm of the seconds of trainings [n 7], as columns."""
    found = lcbench.predicted(task, points, epoch)
    return np.column_stack([100.0 - found[:, lcbench.ACCURACY], np.log10(np.maximum(found[:, 0], 1e-3))])


def searched_volume(task: str, reference: tuple[float, ...], num: int = 20_000, rounds: int = 20) -> float:
    """Return the hypervolume of the front that a long search finds in LCBench: random points, then steps from there.

    The number in `PROBLEMS` comes from this function.
    """
    space, rng = lcbench.SPACE, np.random.default_rng(0)
    units = space.snap(rng.random((num, space.dim)))
    values = np.zeros((0, 2))
    kept = np.zeros((0, space.dim))
    for round_ in range(rounds):
        points = np.array([list(space.decode(tuple(map(float, row))).values()) for row in units], np.float64)
        values = np.vstack([values, error_and_seconds(task, points, lcbench.EPOCHS[-1])])
        kept = np.vstack([kept, units])
        rows = on_front(-values)
        values, kept = values[rows], kept[rows]
        parents = kept[rng.integers(len(kept), size=5000)]
        scale = 0.2 * 0.9**round_
        units = space.snap(np.clip(parents + scale * rng.normal(size=parents.shape), 0.0, 1.0))
    return hypervolume(-values, -np.array(reference))


def _box(num: int) -> Space:
    return Space({f"x{place}": bmbo.Float(0.0, 1.0) for place in range(num)})


TWO_LEVELS = (bmbo.Fidelity(0.0, cost=1), bmbo.Fidelity(1.0, cost=10))
THREE_LEVELS = (bmbo.Fidelity(0.0, cost=1), bmbo.Fidelity(0.5, cost=4), bmbo.Fidelity(1.0, cost=16))


def _sphere_volume(size: int) -> float:
    """Return the hypervolume of DTLZ2's front, an octant of a sphere, to a reference point of ones and a tenth."""
    ball = math.pi ** (size / 2) / math.gamma(size / 2 + 1)
    return 1.1**size - ball / 2**size


LCBENCH_REFERENCE = (40.0, 2.6)


def _lcbench_problem(task: str, best_volume: float) -> SeveralObjectives:
    fidelities = tuple(bmbo.Fidelity(epoch, cost=epoch) for epoch in lcbench.EPOCHS)
    return SeveralObjectives(lcbench.SPACE, fidelities, partial(_lcbench, task=task), LCBENCH_REFERENCE, best_volume)


PROBLEMS: Mapping[str, SeveralObjectives] = {
    "zdt1, 2 objectives": SeveralObjectives(_box(5), TWO_LEVELS, _zdt1, (1.1, 1.1), 1.1 * 1.1 - 1.0 / 3.0),
    "branin_currin, 2 objectives": SeveralObjectives(
        _box(2), THREE_LEVELS, _branin_currin, (0.0, 0.0), 0.5235514158034145
    ),
    "dtlz2, 3 objectives": SeveralObjectives(
        _box(6), TWO_LEVELS, partial(_dtlz2, size=3), (1.1,) * 3, _sphere_volume(3)
    ),
    "dtlz2, 4 objectives": SeveralObjectives(
        _box(6), TWO_LEVELS, partial(_dtlz2, size=4), (1.1,) * 4, _sphere_volume(4)
    ),
    "lcbench_126025, 2 objectives": _lcbench_problem("126025", 47.81666324863184),
}
