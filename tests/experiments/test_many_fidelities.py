"""The comparison of many fidelities counts costs alike, and its functions are the published ones at the top."""

import math

import numpy as np
import pytest

import bmbo
from experiments.many_fidelities import PROBLEMS, Run, Task, branin, hartmann, ladder_of, run_hyperband, run_ours

TASK = Task(
    bmbo.Space({"x": bmbo.Float(0.0, 1.0)}),
    1,
    9,
    (1, 3, 9),
    float,
    lambda configs, fidelity: np.array([-((config["x"] - 0.3) ** 2) - 1 / fidelity for config in configs]),
)


def test_the_functions_have_their_known_optima_at_the_top():
    at = np.array([[(math.pi + 5) / 15, 2.275 / 15]])
    assert branin(at, 1.0)[0] == pytest.approx(-0.397887, abs=1e-5)
    best = np.array([[0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573]])
    assert hartmann(best, 1.0)[0] == pytest.approx(3.32237, abs=1e-4)
    assert branin(at, 0.1)[0] != branin(at, 1.0)[0]


def test_three_levels_and_a_range_have_the_same_top_and_the_same_cost_of_it():
    for make in PROBLEMS.values():
        few, many = ladder_of(make(), None), ladder_of(make(), 100)
        assert (few[few.top].value, few.costs[-1]) == (many[many.top].value, many.costs[-1])
        assert many.num_levels > 40


@pytest.mark.parametrize("run", [lambda: run_ours(TASK, 0, 27.0, levels=None), lambda: run_hyperband(TASK, 0, 27.0)])
def test_no_value_counts_that_was_found_beyond_the_budget(run):
    found = run()
    costs = [spent for spent, _ in found.bests]
    assert costs == sorted(costs)
    assert found.best_at(27.0) > -0.3
    assert found.best_at(0.0) == -math.inf
    assert Run([]).best_at(27.0) == -math.inf
