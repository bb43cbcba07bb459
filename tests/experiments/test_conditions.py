"""The comparison with conditions: its problems, its curves, and the space without conditions."""

import math

import numpy as np
import pytest

import bmbo
from experiments.conditions import METHODS, bests_of
from experiments.problems.branching_spaces import FUNCTION, PROBLEMS, without_conditions


def test_the_function_has_its_minimum_where_the_page_says():
    best = {"model": "net", "shared": 0.6, "layers": 2, "rate": 10**-2.5, "first": 0.7, "second": 0.3}
    assert FUNCTION.evaluate(best, 10) == pytest.approx(0.024)
    space = bmbo.Space(FUNCTION.space)
    points = space.snap(np.random.default_rng(0).random((500, space.dim)))
    assert min(FUNCTION.evaluate(space.decode(unit), 10) for unit in points.tolist()) > 0.02396


def test_the_best_value_counts_from_the_cost_at_which_it_was_known():
    assert bests_of([(1, math.inf), (10, 0.5), (10, 0.7), (10, 0.1)], 40) == [math.inf, 0.5, 0.1]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_random_configurations_of_every_branch_can_be_evaluated(problem):
    curve = METHODS["random"](problem, 0, 12)
    assert all(math.isfinite(value) for _, value in curve)


def test_a_space_without_conditions_has_the_same_parameters():
    flat = without_conditions(FUNCTION.space)
    assert flat.tree is None
    assert flat.names == tuple(FUNCTION.space)
