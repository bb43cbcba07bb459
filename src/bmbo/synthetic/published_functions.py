"""Define multi-fidelity functions that others have published.

- Forrester: Forrester, Sobester, Keane 2007, Multi-fidelity optimization via surrogate modelling, with the low level of
  the library mf2 (van Rijn, Schmitt 2020), 0.5 f + 10 (x - 0.5) - 5.
- Currin, Park and Borehole: Xiong, Qian, Wu 2013, Sequential design and analysis of high-accuracy and low-accuracy
  computer codes.
- Hartmann: Kandasamy et al. 2016, Gaussian process bandit optimisation with multi-fidelity evaluations.

Directions and costs are those of Kandasamy et al. for all functions: all but Forrester's are maximised, and each level
costs ten times as much as the level below.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmbo.problem import Fidelity, Float, Ladder, Number, Problem, Space
from bmbo.synthetic.synthetic_function import Formula, Synthetic

Floats = NDArray[np.float64]
Bounds = dict[str, tuple[Number, Number]]


def _synthetic(
    name: str,
    bounds: Bounds,
    formulas: Sequence[Formula],
    optimiser: Sequence[Number],
    *,
    maximise: bool = True,
) -> Synthetic:
    """Return a function with one optimiser; each level costs ten times as much as the level below."""
    ladder = Ladder(Fidelity(f"level {level + 1}", cost=10**level) for level in range(len(formulas)))
    space = Space({parameter: Float(low, high) for parameter, (low, high) in bounds.items()})
    return Synthetic(
        name=name,
        problem=Problem(space, ladder, maximise=maximise),
        formulas=tuple(formulas),
        optimum=float(formulas[-1](np.array([optimiser], dtype=np.float64))[0]),
        optimisers=(dict(zip(space.names, map(float, optimiser), strict=True)),),
    )


def _forrester_high(x: Floats) -> Floats:
    return (6 * x[:, 0] - 2) ** 2 * np.sin(12 * x[:, 0] - 4)


def _forrester_low(x: Floats) -> Floats:
    return 0.5 * _forrester_high(x) + 10 * (x[:, 0] - 0.5) - 5


def forrester() -> Synthetic:
    """Return the one-dimensional function of Forrester et al., minimised; its cheap level has its minimum elsewhere."""
    # The root of 12 (6x - 2) (sin + (6x - 2) cos), by Newton's method.
    formulas = (_forrester_low, _forrester_high)
    return _synthetic("forrester", {"x": (0, 1)}, formulas, [0.7572487578418557], maximise=False)


def _currin_high(x: Floats) -> Floats:
    x1, x2 = x[:, 0], x[:, 1]
    # The limit at x2 = 0 is 1, because a tiny x2 gives exp(-huge) = 0.
    factor = -np.expm1(-0.5 / np.maximum(x2, 1e-12))
    return factor * (2300 * x1**3 + 1900 * x1**2 + 2092 * x1 + 60) / (100 * x1**3 + 500 * x1**2 + 4 * x1 + 20)


def _currin_low(x: Floats) -> Floats:
    left, right = x[:, 0] - 0.05, x[:, 0] + 0.05
    below, above = np.maximum(x[:, 1] - 0.05, 0), x[:, 1] + 0.05
    corners = [np.stack([a, b], axis=1) for a in (left, right) for b in (below, above)]
    return sum((_currin_high(corner) for corner in corners), start=np.zeros(len(x))) / 4


def currin() -> Synthetic:
    """Return the two-dimensional exponential function of Currin et al.; its cheap level averages four neighbours."""
    # On the edge x2 = 0, where the derivative of the fraction is zero: x1 = 13 / 60.
    return _synthetic("currin", {"x1": (0, 1), "x2": (0, 1)}, (_currin_low, _currin_high), [13 / 60, 0.0])


def _park_high(x: Floats) -> Floats:
    x1, x2, x3, x4 = x.T
    # x1 / 2 (sqrt(1 + (x2 + x3^2) x4 / x1^2) - 1), written so that it is finite at x1 = 0.
    root = (np.sqrt(x1**2 + (x2 + x3**2) * x4) - x1) / 2
    return root + (x1 + 3 * x4) * np.exp(1 + np.sin(x3))


def _park_low(x: Floats) -> Floats:
    return (1 + np.sin(x[:, 0]) / 10) * _park_high(x) - 2 * x[:, 0] + x[:, 1] ** 2 + x[:, 2] ** 2 + 0.5


def park() -> Synthetic:
    """Return the first four-dimensional function of Park 1991."""
    bounds: Bounds = {f"x{place}": (0, 1) for place in range(1, 5)}
    return _synthetic("park", bounds, (_park_low, _park_high), [1.0] * 4)


def _flow(x: Floats, factor: float, offset: float) -> Floats:
    radius, influence, upper, upper_head, lower, lower_head, length, conductivity = x.T
    log_ratio = np.log(influence / radius)
    resistance = offset + 2 * length * upper / (log_ratio * radius**2 * conductivity) + upper / lower
    return factor * upper * (upper_head - lower_head) / (log_ratio * resistance)


def _borehole_high(x: Floats) -> Floats:
    return _flow(x, 2 * math.pi, 1.0)


def _borehole_low(x: Floats) -> Floats:
    return _flow(x, 5.0, 1.5)


def borehole() -> Synthetic:
    """Return the eight-dimensional flow of water through a borehole; its cheap level is nearly proportional."""
    bounds: Bounds = {
        "radius": (0.05, 0.15),
        "influence": (100.0, 50_000.0),
        "upper_transmissivity": (63_070.0, 115_600.0),
        "upper_head": (990.0, 1110.0),
        "lower_transmissivity": (63.1, 116.0),
        "lower_head": (700.0, 820.0),
        "length": (1120.0, 1680.0),
        "conductivity": (9855.0, 12_045.0),
    }
    # The function is monotone in every coordinate, so the optimum is a corner.
    corner = [0.15, 100, 115_600, 1110, 116, 700, 1120, 12_045]
    return _synthetic("borehole", bounds, (_borehole_low, _borehole_high), corner)


@dataclass(frozen=True)
class Hartmann:
    """Add four bumps; its fields are tuples, so that it is hashable."""

    heights: tuple[float, ...]
    rates: tuple[tuple[Number, ...], ...]
    centres: tuple[tuple[Number, ...], ...]

    def __call__(self, x: Floats) -> Floats:
        """See `Formula`."""
        squares = (x[:, None, :] - np.array(self.centres)[None]) ** 2 * np.array(self.rates)[None]
        return np.exp(-squares.sum(axis=2)) @ np.array(self.heights)


def _hartmann(
    name: str,
    num_levels: int,
    rates: tuple[tuple[Number, ...], ...],
    centres: tuple[tuple[Number, ...], ...],
    optimiser: Sequence[Number],
) -> Synthetic:
    heights, change = (1.0, 1.2, 3.0, 3.2), (0.01, -0.01, -0.1, 0.1)

    def level(steps_down: int) -> Hartmann:
        changed = tuple(height + steps_down * each for height, each in zip(heights, change, strict=True))
        return Hartmann(changed, rates, centres)

    formulas = [level(steps) for steps in reversed(range(num_levels))]
    bounds: Bounds = {f"x{place + 1}": (0, 1) for place in range(len(optimiser))}
    return _synthetic(name, bounds, formulas, optimiser)


def hartmann3() -> Synthetic:
    """Return the three-dimensional Hartmann function in three fidelities, whose bumps differ slightly in height."""
    return _hartmann(
        "hartmann3",
        3,
        rates=((3, 10, 30), (0.1, 10, 35), (3, 10, 30), (0.1, 10, 35)),
        centres=(
            (0.3689, 0.1170, 0.2673),
            (0.4699, 0.4387, 0.7470),
            (0.1091, 0.8732, 0.5547),
            (0.0381, 0.5743, 0.8828),
        ),
        # By Newton's method from the published digits, as below.
        optimiser=[0.11458887665506895, 0.5556488946169301, 0.8525469846866774],
    )


def hartmann6() -> Synthetic:
    """Return the six-dimensional Hartmann function in four fidelities.

    The heights change as in three dimensions. In the code that the authors released, they change by a tenth of that.
    """
    return _hartmann(
        "hartmann6",
        4,
        rates=(
            (10, 3, 17, 3.5, 1.7, 8),
            (0.05, 10, 17, 0.1, 8, 14),
            (3, 3.5, 1.7, 10, 17, 8),
            (17, 8, 0.05, 10, 0.1, 14),
        ),
        centres=(
            (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
            (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
            (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
            (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
        ),
        optimiser=[
            0.20168951100670543,
            0.15001069182345797,
            0.476873974221897,
            0.2753324304940561,
            0.31165161660011326,
            0.6573005340656204,
        ],
    )
