"""Define the two functions of the paper's appendix."""

import math

import numpy as np
from numpy.typing import NDArray

from bmbo.problem import Fidelity, Float, Ladder, Problem, Space
from bmbo.synthetic.synthetic_function import Synthetic


def _branin_high(x: NDArray[np.float64]) -> NDArray[np.float64]:
    x1, x2 = x[:, 0], x[:, 1]
    valley = -1.275 * x1**2 / math.pi**2 + 5 * x1 / math.pi + x2 - 6
    return -(valley**2) - (10 - 5 / (4 * math.pi)) * np.cos(x1) - 10


def _branin_middle(x: NDArray[np.float64]) -> NDArray[np.float64]:
    # The root is real everywhere, also outside the domain: -f_3 >= 5 / (4 pi).
    return -10 * np.sqrt(-_branin_high(x - 2)) - 2 * (x[:, 0] - 0.5) + 3 * (3 * x[:, 1] - 1) + 1


def _branin_low(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return -_branin_middle(1.2 * (x + 2)) + 3 * x[:, 1] - 1


def branin() -> Synthetic:
    """Return the three-fidelity Branin function, whose cheap levels are shifted, scaled and misleading."""
    # The paper gives no costs for its synthetic functions. These are the costs of its first tuning task.
    ladder = Ladder([Fidelity("low", cost=1), Fidelity("middle", cost=10), Fidelity("high", cost=50)])
    # The square is zero and the cosine -1, so -f_3 is at its bound 5 / (4 pi). The fourth such x1 is outside the
    # domain.
    optimisers = tuple(
        {"x1": x1, "x2": 6 + 1.275 * x1**2 / math.pi**2 - 5 * x1 / math.pi} for x1 in (-math.pi, math.pi, 3 * math.pi)
    )
    return Synthetic(
        name="branin",
        problem=Problem(Space({"x1": Float(-5, 10), "x2": Float(0, 15)}), ladder, maximise=True),
        formulas=(_branin_low, _branin_middle, _branin_high),
        optimum=-5 / (4 * math.pi),
        optimisers=optimisers,
    )


def _levy_high(x: NDArray[np.float64]) -> NDArray[np.float64]:
    x1, x2 = x[:, 0], x[:, 1]
    return (
        -(np.sin(3 * math.pi * x1) ** 2)
        - (x1 - 1) ** 2 * (1 + np.sin(3 * math.pi * x2) ** 2)
        - (x2 - 1) ** 2 * (1 + np.sin(2 * math.pi * x2) ** 2)
    )


def _levy_low(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.sqrt(1 + _levy_high(x) ** 2)


def levy() -> Synthetic:
    """Return the two-fidelity Levy function, whose cheap level has the same optimiser."""
    # The paper gives no costs for its synthetic functions. A factor of ten, as between the first two levels of Branin.
    ladder = Ladder([Fidelity("low", cost=1), Fidelity("high", cost=10)])
    return Synthetic(
        name="levy",
        problem=Problem(Space({"x1": Float(-10, 10), "x2": Float(-10, 10)}), ladder, maximise=True),
        formulas=(_levy_low, _levy_high),
        optimum=0.0,
        optimisers=({"x1": 1.0, "x2": 1.0},),
    )
