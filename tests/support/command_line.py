"""A study in a folder of its own, and ways to run commands there: fixtures of the tests of the command line."""

import sys

import pytest

import bmbo
from bmbo.cli import main
from bmbo.ledger import Ledger

STUDY = """\
[study]
name = "study"
storage = "sqlite:///study.db"
method = "random_search"
[space.x]
type = "float"
low = 0
high = 1
[space.kind]
type = "categorical"
choices = ["a", "b", "c"]
[[fidelities]]
value = 1
cost = 1
[[fidelities]]
value = 10
cost = 5
name = "ten"
[objective]
function = "objective_of_test:train"
[run]
n_trials = 6
batch_size = 2
"""
OBJECTIVE = """\
import os, pathlib, time
calls = pathlib.Path("calls.txt")
number = 3

def train(trial):
    with calls.open("a") as file:
        file.write(f"{trial.number} {os.getpid()}\\n")
    return trial.params["x"]

def fails(trial):
    raise RuntimeError("no memory left") if trial.number % 2 else ValueError("odd")

def waits(trial):
    train(trial)
    deadline = time.monotonic() + 60
    while not pathlib.Path("go").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return trial.params["x"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a study file and a module with its objective."""
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "objective_of_test.py").write_text(OBJECTIVE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "objective_of_test", raising=False)
    monkeypatch.delenv("BMBO_STORAGE", raising=False)
    return tmp_path


@pytest.fixture
def said(capsys, monkeypatch):
    """Runs a command in this process: exit code, stdout, stderr."""
    # pytest sets up logging, as a user's program might.
    monkeypatch.setattr("bmbo.logging._handler.writes", bmbo.logging._Writes.ALWAYS)

    def run(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def record(name="study", storage="sqlite:///study.db"):
    return Ledger.load(storage, name).read()
