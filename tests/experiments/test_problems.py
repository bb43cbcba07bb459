"""Test the problems of the comparisons, and the data of LCBench."""

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

import bmbo
from experiments import __main__ as program
from experiments.harness.single_run import starting_design
from experiments.methods import METHODS
from experiments.problems import PROBLEMS, DataMissingError, lcbench, synthetic_functions
from experiments.problems.data_files import find


@pytest.mark.parametrize("name", synthetic_functions.PROBLEMS)
def test_every_problem_has_values_costs_and_an_optimum(name):
    benchmark = PROBLEMS[name]()
    assert benchmark.name == name
    assert benchmark.source
    costs = benchmark.problem.ladder.costs
    assert benchmark.default_total_cost == 10 * sum(costs) + 30 * costs[-1]
    losses = [benchmark.regret(v) for job, v in starting_design(benchmark, 5, 0) if job.level == len(costs) - 1]
    assert len(losses) == 5
    assert all(0 < loss < math.inf for loss in losses)


def test_missing_data_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("BMBO_DATA", str(tmp_path))
    with pytest.raises(DataMissingError, match="yahpo/lcbench/model"):
        find("yahpo/lcbench", lcbench.FILES, lcbench.SOURCE)


def test_problems_and_methods_are_listed_without_any_data(monkeypatch, capsys):
    def fetched(*_):
        raise AssertionError("listing must not fetch")

    monkeypatch.setattr("experiments.problems.lcbench.find", fetched)
    assert program.main(["list"]) == 0
    said = capsys.readouterr().out
    for name in [*PROBLEMS, *METHODS]:
        assert f"  {name} " in said


def test_data_are_fetched_once_and_only_if_they_are_the_right_ones(tmp_path, monkeypatch):
    monkeypatch.delenv("BMBO_DATA", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path / "cache"))
    (tmp_path / "some").write_text("content")
    source, digest = (tmp_path / "{file}").as_uri().replace("%7B", "{").replace("%7D", "}"), "ed7002b4"
    with pytest.raises(DataMissingError, match="is not the file"):
        find("folder", {"some": digest}, source)
    right = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert (find("folder", {"some": right}, source) / "some").read_text() == "content"
    (tmp_path / "some").unlink()
    assert (find("folder", {"some": right}, source) / "some").read_text() == "content"
    with pytest.raises(DataMissingError, match="cannot be fetched"):
        find("folder", {"other": right}, source)


needs_data = pytest.mark.skipif(
    not (Path(os.environ.get("BMBO_DATA", "nowhere")) / "yahpo/lcbench/model.onnx").is_file(),
    reason="BMBO_DATA names no folder with yahpo/lcbench",
)


def configurations(num, seed=0):
    """Return random configurations of LCBench as rows for the surrogate."""
    units = np.random.default_rng(seed).random((num, lcbench.SPACE.dim))
    return np.array([list(lcbench.SPACE.decode(tuple(unit)).values()) for unit in units], dtype=np.float64)


@needs_data
def test_lcbench_has_the_bounds_and_scales_of_yahpo():
    path = Path(os.environ["BMBO_DATA"]) / "yahpo/lcbench/config_space.json"
    described = {each["name"]: each for each in json.loads(path.read_text())["hyperparameters"]}
    assert set(lcbench.TASKS) <= set(described["OpenML_task_id"]["choices"])
    for name, param in lcbench.SPACE.params:
        assert not isinstance(param, bmbo.Categorical)
        assert isinstance(param, bmbo.Int if described[name]["type"] == "uniform_int" else bmbo.Float)
        assert param.log == described[name]["log"]
        assert param.low == pytest.approx(described[name]["lower"])
        # The surrogate was fitted to at most four layers.
        assert param.high == pytest.approx(4 if name == "num_layers" else described[name]["upper"])


@needs_data
@pytest.mark.parametrize("task", lcbench.TASKS)
def test_no_random_network_of_lcbench_beats_the_best_known(task):
    benchmark = PROBLEMS[f"lcbench_{task}"]()
    points = configurations(1000)
    found = lcbench.accuracies(task, points, lcbench.EPOCHS[-1])
    assert found.min() > 0.0
    assert found.max() <= benchmark.optimum
    config = dict(zip(lcbench.SPACE.names, points[0], strict=True))
    # The tolerance is needed because a matrix product with one row sums in another order.
    assert benchmark.evaluate(config, 2) == pytest.approx(found[0], rel=1e-4)
    assert benchmark.evaluate(config, 2) == benchmark.evaluate(config, 2)


@needs_data
def test_low_fidelities_of_lcbench_tell_of_the_top_as_much_as_they_should():
    # Rank correlations over 500 random configurations. Those of 126025 are the weakest.
    points = configurations(500)

    def correlation(task, epoch):
        low, top = (lcbench.accuracies(task, points, each) for each in (epoch, 51))
        return np.corrcoef(rankdata(low), rankdata(top))[0, 1]

    assert 0.3 < correlation("126025", 3) < 0.5
    assert 0.65 < correlation("126025", 13) < 0.8
    assert correlation("189908", 13) > 0.9


@needs_data
@pytest.mark.parametrize(
    ("task", "epoch", "expected"),
    [
        ("126025", 3, [53.51925, 78.91069, 72.51797, 83.28575]),
        ("126025", 13, [76.41126, 77.86055, 78.12937, 83.68224]),
        ("189908", 51, [67.82121, 83.77934, 81.46793, 80.77013]),
    ],
)
def test_accuracies_are_those_of_an_independent_reader_of_the_surrogate(task, epoch, expected):
    # The expected values come from a reader of the same file that was written with NumPy alone.
    np.testing.assert_allclose(lcbench.accuracies(task, configurations(4), epoch), expected, rtol=1e-5)


def test_a_missing_onnx_runtime_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    lcbench._surrogate.cache_clear()
    with pytest.raises(DataMissingError, match="lcbench needs ONNX Runtime: pip install onnxruntime"):
        PROBLEMS["lcbench_126025"]().prepare()
