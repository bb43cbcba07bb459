"""optuna-dashboard opens a study's storage unchanged and shows the best of the top fidelity."""

import io
import json
from wsgiref.util import setup_testing_defaults

import pytest

import bmbo
from support import servers

# Every test starts a server.
pytestmark = pytest.mark.slow

optuna_dashboard = pytest.importorskip("optuna_dashboard")

postgresql, postgresql_url = servers.postgresql, servers.postgresql_url


CASES = [("sqlite", "minimize"), ("sqlite", "maximize"), ("journal", "minimize"), ("postgresql", "maximize")]


@pytest.fixture(params=CASES)
def case(request):
    return request.param


@pytest.fixture
def storage(case, request, tmp_path):
    if case[0] == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return {"sqlite": f"sqlite:///{tmp_path}/study.db", "journal": str(tmp_path / "study.log")}[case[0]]


@pytest.fixture
def study(case, storage):
    """Trials at every level and in every state; below the top are the best values of all."""
    direction = case[1]
    sign = 1 if direction == "minimize" else -1
    study = bmbo.create_study(
        study_name="study",
        storage=storage,
        direction=direction,
        space={"x": bmbo.Float(0, 1), "kind": bmbo.Categorical(["a", None, 3])},
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity("full", cost=9)],
        method=bmbo.random_search(),
    )
    for place in range(4):
        study.enqueue({"x": place / 8, "kind": "a"}, level=0)

    def objective(trial):
        if trial.number == 6:
            raise RuntimeError("it broke")
        return sign * (trial.params["x"] - 10 * (trial.level == 0))

    # As a run does it: with a planner, who leaves terms of office in the storage.
    study.optimize(objective, n_trials=10, batch_size=2, catch=RuntimeError, show_progress_bar=False)
    study.ask()
    study.enqueue({"x": 0.5, "kind": None})
    return study


def answer(app, path):
    """What the dashboard's server says to a browser that asks for a page."""
    environment = {"PATH_INFO": path, "QUERY_STRING": ""}
    setup_testing_defaults(environment)
    environment["wsgi.input"] = io.BytesIO()
    said = []
    body = b"".join(app(environment, lambda *start: said.append(start[0])))
    assert said[0].startswith("200"), (said, body)
    return body


def ids(app):
    """The dashboard's number of every study, by name."""
    known = json.loads(answer(app, "/api/studies"))["study_summaries"]
    return {each["study_name"]: each["study_id"] for each in known}


def details(app, name="study"):
    """A study as the dashboard shows it."""
    return json.loads(answer(app, f"/api/studies/{ids(app)[name]}"))


def test_the_dashboard_shows_the_best_of_the_top_fidelity(study, storage):
    app = optuna_dashboard.wsgi(storage)
    shown, best = details(app), study.best_trial
    (only,) = shown["best_trials"]
    assert (only["number"], only["values"], only["state"]) == (best.number, [best.value], "Complete")
    assert shown["directions"] == [study.direction]
    assert best.level == 1
    # The terms of office are a study of their own, which breaks nothing.
    assert set(ids(app)) == {"study", "study/lease"}
    assert details(app, "study/lease")["best_trials"] == []
    for page in ("/dashboard/", *(f"/csv/{number}" for number in ids(app).values())):
        assert answer(app, page)


def test_the_dashboard_shows_every_trial_and_those_below_the_top_as_pruned(study, storage):
    shown = details(optuna_dashboard.wsgi(storage))
    trials = study.trials
    assert [each["number"] for each in shown["trials"]] == [trial.number for trial in trials] == list(range(12))
    for each, trial in zip(shown["trials"], trials, strict=True):
        params = {param["name"]: param["param_external_value"] for param in each["params"]}
        assert params == {name: str(value) for name, value in trial.params.items()}
        finished = "Pruned" if trial.level == 0 else "Complete"
        states = {"complete": finished, "failed": "Fail", "waiting": "Waiting", "running": "Running"}
        assert each["state"] == states[trial.state]
        steps = [{"step": 0, "value": trial.value}] if trial.level == 0 else []
        assert each["intermediate_values"] == steps
    assert [each["state"] for each in shown["trials"]].count("Pruned") == 4
    assert [each["state"] for each in shown["trials"]][6] == "Fail"
    assert shown["has_intermediate_values"]
