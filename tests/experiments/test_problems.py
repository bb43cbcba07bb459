"""The problems of the comparisons, and the data of LCBench."""

import importlib.util
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import bmbo
from experiments import __main__ as program
from experiments.harness.run import starting_design
from experiments.methods import METHODS
from experiments.problems import PROBLEMS, DataMissingError, formulas, lcbench
from experiments.problems.data_files import find


@pytest.mark.parametrize("name", formulas.PROBLEMS)
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
    """Random points of LCBench's space, as the surrogate takes them."""
    units = np.random.default_rng(seed).random((num, lcbench.SPACE.dim))
    return np.array([list(lcbench.SPACE.decode(tuple(unit)).values()) for unit in units], dtype=np.float64)


@needs_data
def test_lcbench_has_the_bounds_and_scales_of_yahpo():
    path = Path(os.environ["BMBO_DATA"]) / "yahpo/lcbench/config_space.json"
    described = {each["name"]: each for each in json.loads(path.read_text())["hyperparameters"]}
    assert set(lcbench.BEST_KNOWN) <= set(described["OpenML_task_id"]["choices"])
    for name, param in lcbench.SPACE.params:
        assert isinstance(param, bmbo.Int) == (described[name]["type"] == "uniform_int")
        assert param.log == described[name]["log"]
        assert param.low == pytest.approx(described[name]["lower"])
        # The surrogate was fitted to at most four layers.
        assert param.high == pytest.approx(4 if name == "num_layers" else described[name]["upper"])


@needs_data
@pytest.mark.parametrize("task", lcbench.BEST_KNOWN)
def test_no_random_network_of_lcbench_beats_the_best_known(task):
    benchmark = PROBLEMS[f"lcbench_{task}"]()
    points = configurations(1000)
    found = lcbench.accuracies(task, points, lcbench.EPOCHS[-1])
    assert found.min() > 0.0
    assert found.max() <= benchmark.optimum
    config = dict(zip(lcbench.SPACE.names, points[0], strict=True))
    # One at a time: a matrix product sums in another order.
    assert benchmark.evaluate(config, 2) == pytest.approx(found[0], rel=1e-4)
    assert benchmark.evaluate(config, 2) == benchmark.evaluate(config, 2)


@needs_data
def test_low_fidelities_of_lcbench_tell_of_the_top_as_much_as_they_should():
    # Rank correlations over 500 random configurations; 126025 has the weakest.
    points = configurations(500)

    def correlation(task, epoch):
        return spearmanr(lcbench.accuracies(task, points, epoch), lcbench.accuracies(task, points, 51)).statistic

    assert 0.3 < correlation("126025", 3) < 0.5
    assert 0.65 < correlation("126025", 13) < 0.8
    assert correlation("189908", 13) > 0.9


@needs_data
@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
def test_the_surrogate_is_what_onnx_runtime_says():
    import onnxruntime  # noqa: PLC0415

    path = Path(os.environ["BMBO_DATA"]) / "yahpo/lcbench"
    session = onnxruntime.InferenceSession(str(path / "model.onnx"))
    code = json.loads((path / "encoding.json").read_text())["OpenML_task_id"]["126025"]
    points = configurations(100)
    inputs = {
        "x_cat": np.full((100, 1), code, np.int32),
        "x_cont": np.column_stack([np.full(100, 13), points]).astype(np.float32),
    }
    expected = session.run(None, inputs)[0][:, lcbench.ACCURACY]
    np.testing.assert_allclose(lcbench.accuracies("126025", points, 13), expected, rtol=1e-4)
