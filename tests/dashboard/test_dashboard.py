"""`bmbo dashboard`: one study, our figures in it, and nothing that could be changed by mistake."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

import bmbo
from bmbo.dashboard import DashboardServer
from bmbo.dashboard.live_figures import LiveFigures
from bmbo.dashboard.server import is_local
from bmbo.ledger import Ledger

# The dashboard and plotly take seconds to load.
pytestmark = pytest.mark.slow

pytest.importorskip("optuna_dashboard")
pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """A study with two levels, a failed, a dropped and a waiting trial, and the record of who planned it."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('dashboard')}/study.db"
    study = bmbo.create_study(
        study_name="study",
        storage=storage,
        space={"x": bmbo.Float(0, 1), "kind": bmbo.Categorical(["a", "b"])},
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(9, cost=9, name="nine")],
        method=bmbo.random_search(),
    )
    for level in (0, 1):
        study.enqueue({"x": 0.5, "kind": "a"}, level=level)

    def objective(trial):
        if trial.number == 4:
            raise RuntimeError("not enough memory " + 50 * "x" + "\n" + 500 * "y")
        return trial.params["x"] - (trial.level == 0) - 10 * (trial.number == 5)

    study.optimize(objective, n_trials=8, batch_size=2, catch=RuntimeError, show_progress_bar=False)
    study.drop([5])
    study.enqueue({"x": 0.25, "kind": "b"})
    bmbo.create_study(
        study_name="other", storage=storage, space={"x": bmbo.Float(0, 1)}, fidelities=[bmbo.Fidelity(1, cost=1)]
    )
    return storage


@pytest.fixture
def server(storage):
    made = DashboardServer(Ledger.load(storage, "study"), bmbo.random_search(), host="127.0.0.1", port=0, model=False)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


def asked(server, path, method="GET", body=None, **headers):
    """What the server answers: the status and the body."""
    base = server.address.partition("/dashboard")[0]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        base + path, data, {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def details(server):
    status, body = asked(server, f"/api/studies/{server.shown.study_id}")
    assert status == 200
    return json.loads(body)


def test_the_list_has_the_study_alone(server):
    status, body = asked(server, "/api/studies")
    (only,) = json.loads(body)["study_summaries"]
    assert (status, only["study_name"]) == (200, "study")
    assert {each["key"]: each["value"] for each in only["user_attrs"]} == {
        "fidelities": "1 (cost 1), nine (cost 9)",
        "seed": "0",
    }
    assert asked(server, f"/dashboard/studies/{server.shown.study_id}")[0] == 200


def test_trials_have_short_attributes_and_values_by_level(server, storage):
    shown = details(server)["trials"]
    trials = bmbo.load_study(study_name="study", storage=storage).trials
    assert len(shown) == len(trials) == 9
    for each, trial in zip(shown, trials, strict=True):
        attributes = {pair["key"]: pair["value"] for pair in each["user_attrs"]}
        assert attributes["fidelity"] == str(trial.fidelity)
        assert int(attributes["level"]) == trial.level
        assert not any(name.startswith("bmbo:") for name in attributes)
        assert all(len(value) <= 200 for value in attributes.values())
        if trial.state == "complete":
            assert each["values"] == [trial.value]
            assert each["intermediate_values"][-1] == {"step": trial.level, "value": trial.value}
    assert shown[4]["state"] == "Fail"
    # The queued configuration ran at both levels.
    assert [each["step"] for each in shown[1]["intermediate_values"]] == [0, 1]
    assert [each["step"] for each in shown[0]["intermediate_values"]] == [0]


def test_a_dropped_trial_is_never_the_best(server, storage):
    shown, best = details(server), bmbo.load_study(study_name="study", storage=storage).best_trial
    assert shown["trials"][5]["state"] == "Fail"
    assert [each["number"] for each in shown["best_trials"]] == [best.number]


def test_our_figures_and_a_note_are_in_it_and_the_storage_has_neither(server, storage):
    shown = details(server)
    figures = {each["id"]: json.loads(each["graph_object"]) for each in shown["plotly_graph_objects"]}
    assert {"bmbo-progress-0", "bmbo-spending-0", "bmbo-timeline-0"} <= set(figures)
    assert figures["bmbo-progress-0"]["layout"]["title"]["text"] == "Progress"
    assert "pruned" in shown["note"]["body"]
    ledger = Ledger.load(storage, "study")
    stored = ledger.storage.get_study_system_attrs(ledger.storage.get_study_id_from_name("study"))
    assert not any(name.startswith("dashboard:plot") for name in stored)


def test_notes_are_kept_and_everything_else_is_refused(server, storage):
    study = f"/api/studies/{server.shown.study_id}"
    assert asked(server, f"{study}/note", "PUT", {"version": 2, "body": "mine"})[0] == 204
    assert details(server)["note"] == {"version": 2, "body": "mine"}
    before = Ledger.load(storage, "study").read()
    trial = details(server)["trials"][8]["trial_id"]
    for path, method, body in (
        (study, "DELETE", {}),
        (f"{study}/rename", "POST", {"study_name": "stolen"}),
        ("/api/studies", "POST", {"study_name": "new", "directions": ["minimize"]}),
        (f"/api/trials/{trial}/tell", "POST", {"state": "Complete", "values": [0.0]}),
        (f"/api/trials/{trial}/user-attrs", "POST", {"user_attrs": {"a": 1}}),
    ):
        assert asked(server, path, method, body)[0] >= 400, path
    assert Ledger.load(storage, "study").read() == before


def test_a_page_elsewhere_cannot_read_the_study_by_another_name_of_this_machine(server):
    assert asked(server, "/api/studies", Host="rebound.example:80")[0] == 403
    assert asked(server, "/api/studies", Host="localhost:80")[0] == 200


def test_a_port_that_is_taken_is_said_in_a_sentence(server, storage):
    port = int(server.address.split(":")[2].partition("/")[0])
    with pytest.raises(ValueError, match=r"cannot listen at 127.0.0.1:.*--port 0 takes a free port"):
        DashboardServer(Ledger.load(storage, "study"), bmbo.random_search(), host="127.0.0.1", port=port, model=False)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("localhost", True), ("0.0.0.0", False), ("machine.example", False)],
)
def test_only_addresses_of_this_machine_are_local(host, local):
    assert is_local(host) is local


def test_figures_are_made_anew_when_the_study_has_changed_and_stay_if_that_fails():
    state, made = ["first"], []

    def make():
        if state == ["broken"]:
            raise RuntimeError("no figures")
        made.append(list(state))
        return {"made of": list(state)}

    figures = LiveFigures(make, lambda: list(state))
    figures.refresh()
    assert made == [["first"]]
    for change in ("second", "broken"):
        state[:] = [change]
        figures._next = 0.0
        figures.attributes()
        assert figures._thread is not None
        figures._thread.join()
        assert figures.attributes() == {"made of": ["second"]}


def test_the_command_serves_until_an_interrupt_and_shows_no_address_of_a_storage(storage):
    # A shell that runs the tests in the background lets its processes ignore interrupts.
    listens = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    runs = "from bmbo.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["dashboard", "--study", "study", "--port", "0", "--no-model"]
    command = [sys.executable, "-c", f"{listens}; {runs}", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "BMBO_STORAGE": storage})
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        address = next(word for word in said.split() if word.startswith("http://127.0.0.1:")).rstrip(";")
        with urllib.request.urlopen(address.partition("/dashboard")[0] + "/api/studies", timeout=60) as answer:
            assert [each["study_name"] for each in json.load(answer)["study_summaries"]] == ["study"]
        with open(f"/proc/{process.pid}/cmdline", encoding="utf-8") as file:
            assert "sqlite" not in file.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert "has ended" in process.stdout.read()
    finally:
        process.kill()
        process.wait()


def test_the_front_of_several_objectives_is_that_of_the_top(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = bmbo.create_study(
        study_name="front",
        storage=storage,
        space={"x": bmbo.Float(0, 1)},
        fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(9, cost=9)],
        method=bmbo.random_search(),
        directions={"loss": "minimize", "gain": "maximize"},
    )
    for x, values, level in ((0.1, (1.0, 1.0), 1), (0.2, (2.0, 2.0), 1), (0.3, (2.0, 1.0), 1), (0.4, (0.0, 9.0), 0)):
        study.add_trial({"x": x}, values, level=level)
    made = DashboardServer(Ledger.load(storage, "front"), bmbo.random_search(), host="127.0.0.1", port=0, model=False)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        shown = details(made)
    finally:
        made.close()
        thread.join()
    assert [each["number"] for each in shown["best_trials"]] == [0, 1]
    assert shown["trials"][3]["state"] == "Pruned"
    assert shown["trials"][0]["values"] == [1.0, 1.0]
    assert shown["objective_names"] == ["loss", "gain"]
    assert "bmbo-front-0" in {each["id"] for each in shown["plotly_graph_objects"]}
