"""Test how reference values are found and kept."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import bmbo
from experiments import __main__ as program
from experiments.harness.find_references import IN_BATCHES, LIVE, QUICK, Effort, effort_for, find
from experiments.problems import Benchmark, reference_values
from experiments.problems.reference_values import Reference

SPACE = bmbo.Space({"x": bmbo.Float(0, 1), "kind": bmbo.Categorical(("a", "b", "c"))})
LADDER = bmbo.Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(2, cost=4)])


def bowl(config, level):
    """Return a loss whose optimum is 0, at 0.7 and the second kind; the first kind fails."""
    if config["kind"] == "a":
        return math.nan
    return (config["x"] - 0.7) ** 2 + (config["kind"] == "c") + (1 - level)


def benchmark(**changes):
    return replace(Benchmark("bowl", bmbo.Problem(SPACE, LADDER, maximise=False), bowl, None), **changes)


def test_a_climb_comes_near_the_optimum_through_kinds_and_failures():
    found = find(benchmark(), Effort(50, 50, 4, 60))
    assert 0 <= found.best < 1e-4
    # A third fails and a third is above 1, so half of all configurations are worse than some loss of the good kind.
    assert 0 < found.median < 2
    assert (found.num_random, found.num_climbing) == (50, 50 + 4 * 60)
    assert find(benchmark(), Effort(50, 50, 4, 60)) == found


def test_values_in_batches_give_the_same_as_one_by_one():
    effort = Effort(30, 10, 3, 20)
    batched = benchmark(many_at_top=lambda configs: [bowl(config, 1) for config in configs])
    assert find(batched, effort) == find(benchmark(), effort)


def test_a_known_optimum_is_taken_and_values_are_without_noise():
    noisy = benchmark(
        optimum=0.0, exact=lambda config: bowl(config, 1), evaluate=lambda *_: pytest.fail("noise was seen")
    )
    found = find(noisy, Effort(200, 0, 0, 0))
    assert (found.best, found.num_climbing) == (0.0, 0)


def test_problems_without_a_scale_are_refused():
    with pytest.raises(ValueError, match="no scale"):
        find(Benchmark("flat", bmbo.Problem(SPACE, LADDER, maximise=False), lambda *_: 1.0, 1.0), QUICK)
    with pytest.raises(ValueError, match="no scale"):
        find(Benchmark("fails", bmbo.Problem(SPACE, LADDER, maximise=False), lambda *_: math.nan, 0.0), QUICK)


def test_more_effort_is_made_where_values_are_cheap():
    assert effort_for(benchmark()) == LIVE
    assert effort_for(benchmark(optimum=0.0)) == QUICK
    assert effort_for(benchmark(many_at_top=lambda configs: [0.0] * len(configs))) == IN_BATCHES


def test_regrets_are_scaled_in_both_directions():
    np.testing.assert_allclose([Reference(0.0, 4.0, 1, 0).regret(value) for value in (0, 1, 4, 6)], [0, 0.25, 1, 1.5])
    np.testing.assert_allclose([Reference(90.0, 50.0, 1, 0).regret(value) for value in (90, 80, 50)], [0, 0.25, 1])
    assert Reference(90.0, 50.0, 1, 0).regret(90.0, best=100.0) == pytest.approx(0.2)


def test_the_table_has_a_sorted_line_for_each_problem_and_keeps_the_others(tmp_path):
    path = tmp_path / "table.json"
    reference_values.write({"b": Reference(1.0, 2.0, 3, 4)}, path)
    reference_values.write({"c": Reference(1 / 3, 2.0, 3, 4), "a": Reference(5.0, 6.0, 7, 0)}, path)
    assert list(reference_values.read(path)) == ["a", "b", "c"]
    assert reference_values.read(path)["c"].best == 0.3333333333
    assert len(path.read_text().splitlines()) == 5
    assert reference_values.read(tmp_path / "nothing.json") == {}


@pytest.mark.slow
def test_the_command_writes_the_table(tmp_path):
    path = tmp_path / "table.json"
    assert program.main(["reference", "--problems", "branin", "forrester", "--out", str(path), "--quiet"]) == 0
    found = json.loads(path.read_text())
    assert found["branin"] == vars(reference_values.read()["branin"])
