"""The comparison of beliefs: its functions have their minimum where beliefs say, or far from there."""

import numpy as np
import pytest

import bmbo
from experiments.priors import GOOD, METHOD_WITHOUT, METHODS, PROBLEMS, WRONG

BEST = {
    "Hartmann, 3 parameters": {"x1": 0.114614, "x2": 0.555649, "x3": 0.852547},
    "settings of a training": {"rate": 0.62, "decay": 0.2, "momentum": 0.8, "optimiser": "adam"},
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_good_beliefs_are_near_the_minimum_and_wrong_ones_are_worse_than_chance(problem):
    assert problem.evaluate(BEST[problem.name]) == pytest.approx(0.0, abs=1e-6)
    space = bmbo.Space(problem.space)
    points = space.snap(np.random.default_rng(0).random((200, space.dim)))
    median = np.median([problem.evaluate(space.decode(unit)) for unit in points.tolist()])
    assert problem.evaluate(problem.beliefs[GOOD]) < median < problem.evaluate(problem.beliefs[WRONG])


def test_every_method_without_a_row_of_its_own_is_compared_with_one_that_has_it():
    assert set(METHOD_WITHOUT) | set(METHOD_WITHOUT.values()) <= set(METHODS)
