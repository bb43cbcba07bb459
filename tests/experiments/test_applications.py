"""Test applications as objectives: stored values and states, tables, and stand-ins from tables."""

import json
import math
import queue
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

import bmbo
from experiments import __main__ as program
from experiments.applications import cached_evaluation as evaluation
from experiments.applications import fill_training_table as table
from experiments.applications import stand_in
from experiments.applications.application import Application, OutOfTimeError
from experiments.applications.training_cache import DiskStore, MemoryStore, StoredStates, default_store
from experiments.harness.method_interface import Job, MethodEntry
from experiments.harness.run_record import Record
from experiments.harness.run_settings import Settings, Task
from experiments.harness.single_run import Run, header
from experiments.problems import APPLICATIONS, PROBLEMS, STAND_INS, Benchmark, DataMissingError
from experiments.reporting.report import write_report

# The applications train models.
pytestmark = pytest.mark.slow

SPACE = bmbo.Space({"x": bmbo.Float(0.0, 1.0), "y": bmbo.Float(0.1, 10.0, log=True), "z": bmbo.Categorical(("a", "b"))})
LADDER = bmbo.Ladder(bmbo.Fidelity(epochs, cost=epochs) for epochs in (1, 10, 50))


def smooth(config, level):
    shift = 0.5 if config["z"] == "b" else 0.0
    return (config["x"] - 0.3) ** 2 + 0.2 * math.log(config["y"]) ** 2 + shift + 0.3 / (level + 1)


@dataclass
class Training:
    """Count the levels in its state, and note every call and the level from which it continued."""

    calls: list[tuple[int, int | None]] = field(default_factory=list)
    loss: Callable[..., float] = smooth

    def __call__(self, config, level, _, states, deadline):
        found = states.load(level)
        self.calls.append((level, None if found is None else found[0]))
        count = int(found[1]) if found else 0
        for each in range(0 if found is None else found[0] + 1, level + 1):
            count += 1
            states.save(each, str(count).encode())
        assert count == level + 1
        deadline.check()
        return float(self.loss(config, level))


def application(training, maximise=False, ceiling=2.0):
    problem = bmbo.Problem(SPACE, LADDER, maximise=maximise)
    return Application("made_up", problem, training, "1", ceiling, "a test", lambda: None)


CONFIG = {"x": 0.5, "y": 1.0, "z": "a"}


@pytest.fixture(params=["disk", "memory"])
def store(request, tmp_path):
    return DiskStore(tmp_path / "store") if request.param == "disk" else MemoryStore()


def test_a_value_that_is_known_is_not_trained_for_again(store):
    training = Training()
    made = application(training)
    first = evaluation.evaluate(made, CONFIG, 1, store=store)
    again = evaluation.evaluate(made, dict(reversed(CONFIG.items())), 1, store=store)
    assert first == again == smooth(CONFIG, 1)
    assert len(training.calls) == 1
    evaluation.evaluate(made, {**CONFIG, "x": np.float64(0.5)}, 1, store=store)
    assert len(training.calls) == 1
    evaluation.evaluate(made, CONFIG, 1, seed=1, store=store)
    evaluation.evaluate(replace(made, version="2"), CONFIG, 1, store=store)
    assert len(training.calls) == 3


def test_a_higher_level_goes_on_from_the_one_below_and_the_top_leaves_no_states(store):
    training = Training()
    made = application(training)
    for level in range(3):
        evaluation.evaluate(made, CONFIG, level, store=store)
    assert training.calls == [(0, None), (1, 0), (2, 1)]
    assert StoredStates(store, evaluation.key_of(made, CONFIG, 0)).load(3) is None


def test_a_damaged_file_counts_as_absent(tmp_path):
    training, store = Training(), DiskStore(tmp_path)
    made = application(training)
    value = evaluation.evaluate(made, CONFIG, 1, store=store)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3
    for damage in (lambda content: content[:-1], lambda _: b"", lambda content: content[:40] + b"x" + content[41:]):
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        assert evaluation.evaluate(made, CONFIG, 1, store=store) == value
    assert training.calls == [(1, None)] * 4


def test_the_environment_says_where_things_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("BMBO_EXPERIMENTS_CACHE", str(tmp_path))
    assert default_store() == DiskStore(tmp_path)
    monkeypatch.setenv("BMBO_EXPERIMENTS_CACHE", "off")
    assert default_store() is default_store()
    assert isinstance(default_store(), MemoryStore)
    monkeypatch.delenv("BMBO_EXPERIMENTS_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path / "user"))
    assert default_store() == DiskStore(tmp_path / "user" / "experiments")


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 1e30])
def test_what_diverged_has_the_ceiling_as_its_value(loss):
    made = application(Training(loss=lambda *_: loss))
    assert evaluation.evaluate(made, CONFIG, 0, store=MemoryStore()) == 2.0


def test_the_ceiling_of_what_is_maximised_is_its_floor():
    low = application(Training(loss=lambda *_: -5.0), maximise=True, ceiling=-1.0)
    high = application(Training(loss=lambda *_: 5.0), maximise=True, ceiling=-1.0)
    assert evaluation.evaluate(low, CONFIG, 0, store=MemoryStore()) == -1.0
    assert evaluation.evaluate(high, CONFIG, 0, store=MemoryStore()) == 5.0


def test_what_was_out_of_time_is_a_failure_and_is_tried_again():
    training, store = Training(), MemoryStore()
    made = application(training)
    assert math.isnan(evaluation.evaluate(made, CONFIG, 1, timeout=-1.0, store=store))
    assert evaluation.evaluate(made, CONFIG, 1, store=store) == smooth(CONFIG, 1)
    assert len(training.calls) == 2


def test_runs_and_reports_go_on_without_an_optimum_and_with_failures(tmp_path, monkeypatch):
    monkeypatch.setenv("BMBO_EXPERIMENTS_CACHE", "off")

    def failing(config, level):
        if config["x"] > 0.5:
            raise OutOfTimeError("too slow")
        return smooth(config, level)

    benchmark = evaluation.benchmark(application(Training(loss=failing)))
    assert benchmark.optimum is None

    @dataclass
    class Asking:
        generator: np.random.Generator
        top: int = 0

        def ask(self):
            self.top = 2 - self.top
            return [Job(SPACE.decode(tuple(self.generator.random(SPACE.dim))), self.top)]

        def tell(self, jobs, values):
            assert len(jobs) == len(values)

        def recommend(self):
            return None

    records = []
    for method in ("random", "bmbo_darn", "other"):
        for seed in range(2):
            make = lambda _problem, seed, *_: Asking(np.random.default_rng(seed))  # noqa: E731
            entry = MethodEntry(method, make, takes_starts=True, batch=False, paper="", where="", packages=())
            settings, evaluations = Settings(1000.0, 1, 5), []
            Run(benchmark, entry, settings, evaluations.append).execute(seed)
            assert any(each.value is None for each in evaluations)
            task = Task("made_up", method, seed)
            records.append(Record(task, header(benchmark, entry, settings), tuple(evaluations)))
    write_report(records, {}, tmp_path / "page.md", tmp_path / "figures")
    assert "nan" not in (tmp_path / "page.md").read_text()
    assert (tmp_path / "figures" / "made_up.svg").is_file()


def test_applications_and_stand_ins_are_problems():
    assert set(APPLICATIONS) | {f"{name}_standin" for name in STAND_INS} <= set(PROBLEMS)


def test_what_cannot_be_imported_is_named_and_does_not_stop_a_list(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "experiments.applications.lda", None)
    with pytest.raises(DataMissingError, match="lda cannot be used here"):
        PROBLEMS["lda"]()
    assert program.main(["list"]) == 0
    assert "lda cannot be used here" in capsys.readouterr().out


@pytest.fixture
def made_up(monkeypatch):
    """Return a module with the application of these tests, in place of one of the four."""
    training = Training()
    module = type(sys)("experiments.applications.boosting")
    module.APPLICATION = replace(application(training), name="boosting")
    monkeypatch.setitem(sys.modules, "experiments.applications.boosting", module)
    return module


def table_command(out, rows, *more):
    return program.main(["table", "boosting", "--rows", rows, "--out", str(out), "--quiet", "--note", "a test", *more])


def without_seconds(path):
    problem = bmbo.Problem(SPACE, LADDER, maximise=False)
    return {row.name: (row.config, row.losses, row.seed) for row in table.read(path, problem)}


def test_a_table_that_was_stopped_goes_on_and_equals_one_made_at_once(made_up, tmp_path):
    assert table_command(tmp_path / "once.csv", "0:12") == 0
    trained = len(made_up.APPLICATION.train.calls)
    assert trained == 36
    assert made_up.APPLICATION.train.calls[:3] == [(0, None), (1, 0), (2, 1)]
    assert table_command(tmp_path / "parts.csv", "0:5") == 0
    with (tmp_path / "parts.csv").open("a") as file:
        file.write("5,0.3,0.")  # a line that was being written
    assert table_command(tmp_path / "parts.csv", "3:12") == 0
    assert len(made_up.APPLICATION.train.calls) == trained + 36
    assert without_seconds(tmp_path / "parts.csv") == without_seconds(tmp_path / "once.csv")
    first = (tmp_path / "once.csv").read_text().splitlines()[0]
    assert first.startswith("# python -m experiments table boosting; version 1")
    assert first.endswith("a test")
    found = without_seconds(tmp_path / "once.csv")
    assert found["7"][1] == tuple(smooth(found["7"][0], level) for level in range(3))


def test_a_row_does_not_depend_on_how_many_are_asked_for():
    few, many = table.sobol_rows(SPACE, 2, 4), table.sobol_rows(SPACE, 0, 100)
    assert few == {name: many[name] for name in ("2", "3")}
    assert table.sobol_rows(SPACE, 0, 1) == {"0": many["0"]}


@pytest.mark.usefixtures("made_up")
def test_configurations_that_runs_visited_are_rows_too(tmp_path):
    lines = [json.dumps(CONFIG), json.dumps({**CONFIG, "x": 0.25}), json.dumps(CONFIG)]
    (tmp_path / "visited").write_text("\n".join(lines))
    command = ["table", "boosting", "--configs", str(tmp_path / "visited"), "--out", str(tmp_path / "t.csv"), "--quiet"]
    assert program.main(command) == 0
    rows = without_seconds(tmp_path / "t.csv")
    assert [name[0] for name in rows] == ["v", "v"]
    assert CONFIG in [config for config, _, _ in rows.values()]
    (tmp_path / "visited").write_text(json.dumps({**CONFIG, "x": 7.0}))
    assert program.main(command) == 2


def test_the_best_of_what_runs_evaluated_at_the_top_are_rows_without_training_again(
    made_up, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("BMBO_EXPERIMENTS_CACHE", str(tmp_path / "kept"))
    made = made_up.APPLICATION
    command = ["table", "boosting", "--out", str(tmp_path / "t.csv"), "--quiet", "--visited"]
    for number, message in (("3", "no run here has evaluated boosting"), ("0", "--visited must be at least 1")):
        assert program.main([*command, number]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "t.csv").exists()
    configs = list(table.sobol_rows(SPACE, 0, 8).values())
    for config in configs:
        evaluation.evaluate(made, config, 2)
    # Three values that do not count: of another seed, of another application, and without its configuration.
    evaluation.evaluate(made, CONFIG, 2, seed=1)
    evaluation.evaluate(replace(made, name="other"), CONFIG, 2)
    default_store().write(f"{evaluation.key_of(made, CONFIG, 0)}.2.value", struct.pack("<d", 0.0))
    best = sorted(configs, key=lambda config: smooth(config, 2))
    assert evaluation.visited_configs(made) == best
    evaluation.evaluate(made, configs[0], 0)
    made.train.calls.clear()
    assert program.main([*command, "3"]) == 0
    found = list(without_seconds(tmp_path / "t.csv").values())
    assert found == [(config, tuple(smooth(config, level) for level in range(3)), 0) for config in best[:3]]
    assert {level for level, _ in made.train.calls} == {0, 1}


def test_an_application_that_trains_many_at_once_fills_a_table_as_they_end(made_up, tmp_path):
    def train_many(configs, _seed, _deadline, emit, _pauses):
        for index in reversed(range(len(configs))):
            if index == 0 and len(configs) > 1:
                raise OutOfTimeError("it was the last")
            emit(index, (math.nan, 0.5, smooth(configs[index], 2)), 17, 1.5)

    made_up.train_many = train_many
    assert table_command(tmp_path / "t.csv", "0:4") == 1
    assert list(without_seconds(tmp_path / "t.csv")) == ["3", "2", "1"]
    assert table_command(tmp_path / "t.csv", "0:4") == 0
    rows = without_seconds(tmp_path / "t.csv")
    assert rows["0"][1] == (2.0, 0.5, smooth(rows["0"][0], 2))


def test_kinds_that_are_trained_together_are_shared_out_among_processes(made_up, tmp_path, monkeypatch):
    def train_many(configs, _seed, _deadline, emit, _pauses):
        asked.append([made_up.kind(config) for config in configs])
        for index, config in enumerate(configs):
            emit(index, tuple(smooth(config, level) for level in range(3)), 17, 1.5)

    asked = []
    made_up.train_many, made_up.kind = train_many, lambda config: round(2 * config["x"])
    # Threads, because a new process would not know the application of this test.
    made = SimpleNamespace(Queue=queue.Queue, Process=threading.Thread)
    monkeypatch.setattr(table, "get_context", lambda _: made)
    assert table_command(tmp_path / "t.csv", "0:16", "--jobs", "2") == 0
    assert sorted(without_seconds(tmp_path / "t.csv"), key=int) == [str(row) for row in range(16)]
    assert len(asked) == 2
    assert set(asked[0]).isdisjoint(asked[1])


def test_a_row_whose_time_was_not_enough_has_no_losses():
    row = table.train_row(application(Training()), "0", CONFIG, 0, -1.0)
    assert all(math.isnan(loss) for loss in row.losses)


@pytest.mark.usefixtures("made_up")
def test_rows_whose_time_was_not_enough_are_tried_again(tmp_path, capsys):
    assert table_command(tmp_path / "t.csv", "0:2", "--timeout", "-1") == 1
    assert without_seconds(tmp_path / "t.csv") == {}
    assert "the time was not enough for row 1" in capsys.readouterr().err
    assert table_command(tmp_path / "t.csv", "0:2") == 0
    assert list(without_seconds(tmp_path / "t.csv")) == ["0", "1"]


def rows_of_smooth(num):
    configs = table.sobol_rows(SPACE, 0, num)
    return [
        table.Row(name, config, tuple(smooth(config, level) for level in range(3)), (1.0,) * 3, 0)
        for name, config in configs.items()
    ]


@pytest.mark.parametrize("kind", stand_in.CANDIDATES)
def test_a_stand_in_foretells_rows_that_it_has_not_seen(kind):
    pytest.importorskip("sklearn", reason="stand-ins need scikit-learn")
    points, losses = stand_in.arrays(rows_of_smooth(64), SPACE)
    found = stand_in.errors(losses, stand_in.held_out(SPACE, points, losses, kind), -1.0)
    assert found.r2.min() > 0.8
    assert found.spearman.min() > 0.9
    # The error is far smaller than that of predicting the mean.
    assert (found.rmse < 0.5 * losses.std(axis=0)).all()


def test_the_share_of_the_cube_at_the_best_loss_is_of_the_side_that_is_better():
    points, losses = stand_in.arrays(rows_of_smooth(40), SPACE)
    # One row has the smallest loss, one has the largest loss, and all others are equal.
    two = np.where(losses == losses.min(axis=0), 0.0, np.where(losses == losses.max(axis=0), 2.0, 1.0))
    for end, sign in ((0.0, -1.0), (2.0, 1.0)):
        one_end = np.where(two == end, 1.0, two)
        assert np.all(stand_in.share_at_best(SPACE, points, one_end, "extra trees", sign) > 0.1)
        assert np.all(stand_in.share_at_best(SPACE, points, two, "extra trees", sign) < 0.1)


@pytest.mark.parametrize("kind", stand_in.CANDIDATES)
def test_a_stand_in_is_the_same_each_time_it_is_fitted(kind):
    pytest.importorskip("sklearn", reason="stand-ins need scikit-learn")
    points, losses = stand_in.arrays(rows_of_smooth(40), SPACE)
    fits = [stand_in.StandIn.fit(SPACE, points, losses, kind) for _ in range(2)]
    values = [[fitted(CONFIG, level) for level in range(3)] for fitted in fits]
    assert values[0] == values[1]
    assert values[0][0] > values[0][1] > values[0][2]


def test_losses_over_a_wide_range_are_learnt_in_the_logarithm():
    losses = np.array([[1.0, -1.0, 1.0], [10.0, 2.0, 2.0], [100.0, 3.0, 2.5]])
    scale = stand_in.Scale.of(losses)
    assert scale.logs == (True, False, False)
    assert scale.restore(scale.standardise(losses)) == pytest.approx(losses)


def test_trees_are_taken_unless_another_is_clearly_better():
    none = np.zeros(3)

    def errors(scaled):
        return stand_in.Errors(none, none, none, none, scaled)

    assert stand_in.chosen({"extra trees": errors(0.105), "Gaussian process": errors(0.1)}) == "extra trees"
    assert stand_in.chosen({"extra trees": errors(0.2), "Gaussian process": errors(0.1)}) == "Gaussian process"


def test_a_stand_in_is_a_problem_once_there_is_a_table(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="stand-ins need scikit-learn")
    module = type(sys)("experiments.applications.lda")
    module.APPLICATION = replace(application(Training()), name="lda")
    monkeypatch.setitem(sys.modules, "experiments.applications.lda", module)
    monkeypatch.setattr(table, "FOLDER", tmp_path)
    stand_in._fitted.cache_clear()
    benchmark: Benchmark = PROBLEMS["lda_standin"]()
    assert benchmark.name == "lda_standin"
    with pytest.raises(DataMissingError, match="python -m experiments table lda"):
        benchmark.prepare()
    assert program.main(["standin", "lda"]) == 2
    assert program.main(["table", "lda", "--rows", "0:32", "--quiet"]) == 0
    benchmark.prepare()
    values = [benchmark.evaluate(CONFIG, level) for level in range(3)]
    assert values == pytest.approx([smooth(CONFIG, level) for level in range(3)], abs=0.3)
    # Another process fits it again, with the same values.
    stand_in._fitted.cache_clear()
    assert [benchmark.evaluate(CONFIG, level) for level in range(3)] == values
    assert program.main(["standin", "lda", "--out", str(tmp_path / "page.md")]) == 0
    assert capsys.readouterr().out.strip().endswith((tmp_path / "page.md").read_text().strip())
    assert "32 rows" in (tmp_path / "page.md").read_text()
    stand_in._fitted.cache_clear()
