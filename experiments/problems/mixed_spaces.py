"""Make problems with mixed, ordered and large categorical spaces, whose optimum is known.

The loss is a sum. Each choice adds its own constant, and each number adds the square of its distance to a centre. The
first choice moves the centres, so that numbers cannot be tuned for one choice and kept for another.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bmbo
from bmbo.problem import Parameter
from experiments.problems.benchmark import Benchmark

Floats = NDArray[np.float64]

COSTS = (1.0, 10.0)

MOVED = 0.4
"""Largest distance between the centres of two choices, in coordinates of the cube."""

BIAS = 0.3
"""Size of the constants by which the low level differs, compared with those of the choices."""

SHIFT = 0.1
"""Distance between the centres of the two levels, in coordinates of the cube."""


@dataclass(frozen=True)
class ChosenParts:
    """Evaluate the loss of this file.

    Attributes:
        name: of the problem. It determines all constants.
        space: its parameters.
    """

    name: str
    space: bmbo.Space

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the loss of a configuration at a level."""
        first, total = -1, 0.0
        for name, param in self.space.params:
            if isinstance(param, bmbo.Categorical) and not param.ordered:
                place = param.choices.index(config[name])
                first = place if first < 0 else first
                total += self._constants[name][level][place]
        for name, param in self.space.params:
            if not isinstance(param, bmbo.Categorical) or param.ordered:
                distance = param.encode(config[name])[0] - self._centre(name, param, first)
                total += 4.0 * (distance + SHIFT * (1 - level)) ** 2
        return total

    @cached_property
    def _constants(self) -> dict[str, tuple[list[float], list[float]]]:
        """Return the constants of the choices of each parameter, at the low level and at the top."""
        found: dict[str, tuple[list[float], list[float]]] = {}
        for name, param in self.space.params:
            if isinstance(param, bmbo.Categorical) and not param.ordered:
                generator = self._generator(name)
                top = generator.random(len(param.choices))
                # The best choice adds nothing.
                top -= top.min()
                low = top + BIAS * generator.standard_normal(len(top))
                found[name] = (low.tolist(), top.tolist())
        return found

    def _centre(self, name: str, param: Parameter, first: int) -> float:
        generator = self._generator(f"{name}/{first}")
        wished = 0.5 + MOVED * (generator.random() - 0.5)
        # A centre that the parameter can take, so that the optimum is zero.
        return float(param.encode(param.decode((wished,)))[0])

    def _generator(self, said: str) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(said.encode())])


def _choices(num: int) -> bmbo.Categorical:
    return bmbo.Categorical([f"choice {place}" for place in range(num)])


SPACES: Mapping[str, Callable[[], Mapping[str, Parameter]]] = {
    "mixed": lambda: {
        "kind": _choices(4),
        "rate": bmbo.Float(1e-5, 1.0, log=True),
        "size": bmbo.Int(1, 512, log=True),
        "depth": bmbo.Int(1, 12),
        "share": bmbo.Float(0, 1, step=0.05),
        "on": bmbo.Categorical([False, True]),
    },
    "ordered": lambda: {
        f"size {place}": bmbo.Categorical(["xs", "s", "m", "l", "xl", "xxl"], ordered=True) for place in range(6)
    },
    "choices_50": lambda: {"kind": _choices(50), "x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)},
    "choices_6_of_5": lambda: {f"kind {place}": _choices(5) for place in range(6)},
    "few_points": lambda: {"kind": _choices(3), "depth": bmbo.Int(1, 4)},
}


def _benchmark(name: str, params: Callable[[], Mapping[str, Parameter]]) -> Benchmark:
    space = bmbo.Space(params())
    ladder = bmbo.Ladder(bmbo.Fidelity(place, cost=cost) for place, cost in enumerate(COSTS))
    said = name.removeprefix("robust_").replace("_", " ")
    loss = ChosenParts(name, space)
    return Benchmark(name, bmbo.Problem(space, ladder, maximise=False), loss, 0.0, f"robustness: {said}")


PROBLEMS: dict[str, Callable[[], Benchmark]] = {
    f"robust_{name}": partial(_benchmark, f"robust_{name}", params) for name, params in SPACES.items()
}
