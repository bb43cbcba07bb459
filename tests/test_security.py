"""What is read from a storage is data: it is neither unpickled nor run, and few places can start anything."""

import ast
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

import bmbo
from bmbo.cli import main
from bmbo.study import load_study

SOURCE = Path(bmbo.__file__).parent

# Each use says beside it where its input comes from: a pipe, the study file or our own words.
MAY = {
    "pickle.loads": {
        *("executors/job_transport.py", "executors/local_processes.py", "executors/worker_program.py"),
        "study/reported_values.py",
    },
    "importlib.import_module": {"cli/objective_lookup.py"},
    "import_module": {"dashboard/server.py", "report/written_report.py"},
    "subprocess.Popen": {"cli/command_objective.py", "executors/local_processes.py", "testing/executor_suite.py"},
    "os.execve": {"cli/argument_passwords.py"},
}
DANGEROUS = {
    *MAY,
    *("pickle.load", "pickle.Unpickler", "cloudpickle.load", "cloudpickle.loads", "marshal.loads", "shelve.open"),
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.run", "subprocess.call"),
    *("subprocess.check_output", "subprocess.check_call", "os.execv", "os.spawnv", "runpy.run_path", "yaml.load"),
    *("np.load", "numpy.load", "joblib.load"),
}


def calls():
    """Every call in the package: the file, the name that is called and the names of the options."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                options = {option.arg: ast.unparse(option.value) for option in node.keywords}
                yield path.relative_to(SOURCE).as_posix(), ast.unparse(node.func), options


def test_only_these_places_unpickle_import_by_name_or_start_programs():
    found = {}
    for path, name, _ in calls():
        if name in DANGEROUS:
            found.setdefault(name, set()).add(path)
    assert found == MAY


def test_no_shell_is_ever_started():
    assert [path for path, _, options in calls() if options.get("shell", "False") != "False"] == []


PICKLE = "cos\nsystem\n(S'touch harmed'\ntR."
HOSTILE = [PICKLE, "__import__('os').system('touch harmed')", "{{7*7}}", "$(touch harmed)", "'; drop table x; --"]
EVENTS = ("pickle.", "os.system", "os.exec", "os.posix_spawn", "subprocess.", "os.fork", "socket.connect")


@pytest.fixture(scope="module")
def audited():
    """A list of what the interpreter reports while the list is switched on."""
    seen, switch = [], {"on": False}

    def hook(event, arguments):
        if switch["on"] and event.startswith(EVENTS):
            seen.append((event, repr(arguments)[:200]))

    # A hook stays until the process ends.
    sys.addaudithook(hook)
    return seen, switch


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_storage_is_only_text(tmp_path, monkeypatch, audited, text):
    monkeypatch.chdir(tmp_path)
    space = {"x": bmbo.Float(0, 1), "kind": bmbo.Categorical(["a", text])}
    fidelities = [bmbo.Fidelity(text, cost=1)]
    study = bmbo.create_study(study_name="study", storage="sqlite:///study.db", space=space, fidelities=fidelities)
    study.add_trial({"x": 0.5, "kind": text}, 1.0)
    study.tell(study.enqueue({"x": 0.1, "kind": text}), error=text)
    with closing(sqlite3.connect("study.db")) as connection, connection:
        for key in ("bmbo:owner", "bmbo:own", text):
            statement = "insert into trial_user_attributes (trial_id, key, value_json) values (1, ?, json_quote(?))"
            connection.execute(statement, (key, text))
        connection.execute("insert into study_user_attributes (study_id, key, value_json) values (1, ?, '3')", (text,))
    # With what the log of the database still has.
    with closing(sqlite3.connect("study.db")) as used, closing(sqlite3.connect("copy.db")) as copy:
        used.backup(copy)
    seen, switch = audited
    switch["on"] = True
    try:
        loaded = load_study(study_name="study", storage="sqlite:///copy.db")
        assert loaded.best_params["kind"] == text
        assert loaded.trials[1].error == text
        for words in (["status"], ["best"], ["trials"], ["export"], ["export", "--format", "json"]):
            assert main([*words, "--storage", "sqlite:///copy.db", "--study", "study"]) == 0
    finally:
        switch["on"] = False
    assert seen == []
    assert not (tmp_path / "harmed").exists()


def test_the_name_of_a_study_leads_to_no_other_folder(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in ("../outside", "/tmp/outside", "..", "a/../../outside", "C:\\outside"):
        study = bmbo.create_study(
            study_name=name,
            storage="sqlite:///studies.db",
            space={"x": bmbo.Float(0, 1)},
            fidelities=[bmbo.Fidelity(1, cost=1)],
        )
        folder = study.ask()[0].checkpoint_dir
        assert folder.resolve().parent.parent == tmp_path / "work"
        assert study.report(model=False).resolve().parent == tmp_path / "work"
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
