"""Callbacks of Optuna's signature in a run of bmbo, and the page that shows them."""

import re
import sys
from pathlib import Path
from types import ModuleType

import optuna
import pytest
from optuna.trial import TrialState

import bmbo
from bmbo.integration.optuna_callbacks import optuna_callback

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "track_runs.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


class Tracker:
    """What callbacks of trackers do with what they get: they read what is public, and write."""

    written: list[dict] = []  # noqa: RUF012 - the page makes the object

    def __init__(self, *arguments, **options):
        self.options = (arguments, options)

    def __call__(self, study, trial):
        assert isinstance(study, optuna.Study)
        assert not study.get_trials()
        assert trial.distributions.keys() == trial.params.keys()
        self.written.append(
            {"study": study.study_name, "direction": study.direction.name, "params": trial.params}
            | {"number": trial.number, "state": trial.state, "values": trial.values, "attributes": trial.user_attrs}
            | {"seconds": (trial.datetime_complete - trial.datetime_start).total_seconds()}
        )


@pytest.fixture
def written(monkeypatch):
    monkeypatch.setattr(Tracker, "written", [])
    return Tracker.written


def study_of(**options):
    return bmbo.create_study(
        study_name="tracked",
        space={"x": bmbo.Float(0, 1), "kind": bmbo.Categorical(["a", None])},
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity("full", cost=9)],
        method=bmbo.random_search(),
        **options,
    )


def test_a_callback_of_optuna_sees_every_trial_with_its_fidelity(written):
    study = study_of(direction="maximize")
    for level in (0, 1):
        study.enqueue({"x": 0.5, "kind": None}, level=level)

    def objective(trial):
        if trial.number == 2:
            raise RuntimeError("broken")
        return trial.params["x"]

    study.optimize(
        objective, n_trials=3, callbacks=[optuna_callback(Tracker())], catch=RuntimeError, show_progress_bar=False
    )
    low, top, failed = written
    assert (low["study"], low["direction"]) == ("tracked", "MAXIMIZE")
    assert low["params"] == {"x": 0.5, "kind": None, "fidelity": 1}
    assert top["params"]["fidelity"] == "full"
    assert [each["number"] for each in written] == [0, 1, 2]
    assert (low["state"], low["values"]) == (TrialState.COMPLETE, [0.5])
    assert (failed["state"], failed["values"]) == (TrialState.FAIL, None)
    assert low["attributes"].items() >= {"level": 0, "cost": 1.0}.items()
    assert failed["attributes"]["error"] == "RuntimeError: broken"
    assert all(each["seconds"] >= 0 for each in written)


def test_a_parameter_that_is_called_fidelity_keeps_its_name(written):
    study = bmbo.create_study(
        space={"fidelity": bmbo.Float(0, 1)}, fidelities=[bmbo.Fidelity(3, cost=1)], method=bmbo.random_search()
    )
    study.optimize(lambda _: 1.0, n_trials=1, callbacks=[optuna_callback(Tracker())], show_progress_bar=False)
    assert written[0]["params"] == {"fidelity": study.trials[0].params["fidelity"], "bmbo_fidelity": 3}


def test_the_page_runs_with_callbacks_that_read_what_those_of_optuna_read(written, monkeypatch, tmp_path):
    package = ModuleType("optuna_integration")
    for name in ("MLflowCallback", "WeightsAndBiasesCallback", "TensorBoardCallback"):
        setattr(package, name, Tracker)
    monkeypatch.setitem(sys.modules, "optuna_integration", package)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    assert len(BLOCKS) == 4
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"track_runs.md, block {number}", "exec"), namespace)
    assert [each["number"] for each in written] == [4, 5, 6, 7, 8, 9]
