"""Test how a method judges a cheap level: one that tells nothing about the top, and one that tells everything.

Both problems have the top of Hartmann 3 and the same costs. On the first, a method may lose against a method that uses
the top alone; on the second, it may gain. Both differences come from its judgement of the cheap level.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bmbo.problem import Fidelity, Ladder
from bmbo.synthetic.published_functions import hartmann3
from bmbo.synthetic.synthetic_function import Formula, Synthetic


def _unrelated(x: NDArray[np.float64]) -> NDArray[np.float64]:
    # As smooth as the top, so that it is easy to learn. Frequencies and phases were chosen among a few, so that the
    # correlation with the top is nearly zero. A test checks this.
    return np.sin(7 * x[:, 0] + 1.5) + np.sin(5 * x[:, 1] + 3.0) + np.cos(9 * x[:, 2] + 4.5)


@dataclass(frozen=True)
class Shifted:
    """Add a constant to a formula."""

    formula: Formula
    constant: float

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `Formula`."""
        return self.formula(x) + self.constant


def _with_cheap_level(name: str, cheap: Formula) -> Synthetic:
    top = hartmann3()
    # A factor of ten, as between neighbours of the published functions.
    ladder = Ladder([Fidelity("cheap", cost=1), Fidelity("top", cost=10)])
    return replace(top, name=name, problem=replace(top.problem, ladder=ladder), formulas=(cheap, top.formulas[-1]))


def useless() -> Synthetic:
    """Return Hartmann 3 with an unrelated cheap level, which a method should learn to ignore."""
    return _with_cheap_level("useless", _unrelated)


def shifted() -> Synthetic:
    """Return Hartmann 3 with a cheap level that is the top plus a constant; it should teach a method nearly all."""
    # More than the range of the function, so that no value of one level is a value of the other.
    return _with_cheap_level("shifted", Shifted(hartmann3().formulas[-1], 10.0))
