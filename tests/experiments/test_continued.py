"""The comparison where training continues charges every method only for what was not trained before."""

import bmbo
from experiments.continued import Run
from experiments.harness.method_interface import Job
from experiments.problems import Benchmark

LADDER = bmbo.Ladder([bmbo.Fidelity(3, cost=3), bmbo.Fidelity(13, cost=13), bmbo.Fidelity(51, cost=51)])
PROBLEM = bmbo.Problem(bmbo.Space({"x": bmbo.Float(0.0, 1.0)}), LADDER, maximise=True)


def test_a_level_costs_what_is_missing():
    benchmark, run = Benchmark("x", PROBLEM, lambda config, level: config["x"] + level, None), Run()
    for x, level in ((0.5, 0), (0.5, 2), (0.25, 1), (0.25, 2)):
        run.evaluate(benchmark, Job({"x": x}, level))
    assert [spent for spent, _ in run.bests] == [3.0, 51.0, 64.0, 102.0]
    assert (run.above, run.continued) == (3, 2)
    assert run.best_at(50.0) == float("-inf")
    assert run.best_at(51.0) == 2.5
