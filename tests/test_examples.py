"""Every example, as a reader would run it, with a small budget."""

import json
import re
import runpy
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bmbo.cli import main

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example in this process, in a folder of its own, and gives what it prints."""
    monkeypatch.chdir(tmp_path)

    def ran(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *words])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return ran


def run_apart(folder, name, *words, code=0):
    """What an example prints that runs in a process of its own."""
    command = [sys.executable, str(EXAMPLES / name), *words]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout


def number_of_trials(path):
    """How many trials a database holds, planners' terms left out."""
    with sqlite3.connect(path) as database:
        query = """SELECT count(*) FROM trials JOIN studies USING (study_id) WHERE study_name NOT LIKE '%/lease'"""
        return database.execute(query).fetchone()[0]


def test_every_example_is_run_here():
    tested = Path(__file__).read_text()
    names = [path.name for path in EXAMPLES.rglob("*.*") if path.suffix in (".py", ".toml")]
    assert len(names) >= 8
    assert not [name for name in names if f'"{name}"' not in tested]


def test_sklearn_search(run):
    pytest.importorskip("sklearn")
    out = run("sklearn_search.py", "--n-iter", "2")
    assert re.search(r"best: \{'C': .*\}, accuracy \d\.\d+", out)


def test_quickstart(tmp_path, run):
    out = run("quickstart.py", "--n-trials", "12")
    assert re.search(r"best loss 0\.\d+ with \{'learning_rate': ", out)
    assert re.search(r"the model would choose .* and expects -?\d+\.\d+ ± \d+\.\d+", out)
    # Twice as many as the start has, so that the model has chosen.
    assert number_of_trials(tmp_path / "quickstart.db") == 12


def test_ask_and_tell(run):
    out = run("ask_and_tell.py", "--n-trials", "12")
    assert len(re.findall(r"^\d+ level \d", out, re.MULTILINE)) == 12
    # What was enqueued came first.
    assert out.startswith("0 level 1 {'temperature': 350.0, 'catalyst': 'A'} 0.68")
    assert "best yield in an hour: 0." in out


def test_checkpoints_are_gone_on_from(tmp_path, run):
    out = run("checkpoints.py", "--n-trials", "10")
    assert out.splitlines()[0] == "trial 0: epochs 1 to 2"
    assert "epochs 3 to 8" in out
    assert "best error " in out
    found = re.search(r"(\d+) of (\d+) trials above the lowest level", out)
    assert found is not None
    assert 0 < int(found[2]) < 2 * int(found[1])
    # Of a configuration that climbed, what nothing can go on from any more is removed.
    assert len(list(next(tmp_path.glob("checkpoints-*-checkpoints")).iterdir())) < 10


@pytest.mark.slow
def test_a_crash_loses_nothing(tmp_path, run, monkeypatch):
    words = ("resume_after_crash.py", "--n-trials", "8")
    run_apart(tmp_path, *words, "--crash-at", "5", code=-9)
    resumed = run(*words)
    assert resumed.startswith("5 trials have finished before\n8 trials, best ")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    uninterrupted = run(*words)
    assert uninterrupted.startswith("0 trials have finished before\n")
    assert uninterrupted.splitlines()[1] == resumed.splitlines()[1]


def test_old_results_are_used(run):
    out = run("add_old_results.py", "--n-trials", "4")
    assert "begins with 6 results, the best 1.18 at the fine mesh" in out
    assert "best drag 1." in out


@pytest.mark.slow
def test_ray(tmp_path):
    pytest.importorskip("ray")
    out = run_apart(tmp_path, "ray_cluster.py", "--n-trials", "4", "--n-workers", "2")
    assert re.search(r"best 0\.\d+ with \{'x': ", out)
    assert number_of_trials(tmp_path / "ray.db") == 4


@pytest.mark.slow
def test_a_program_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("study.toml", "train.py"):
        shutil.copy(EXAMPLES / "command_line" / name, tmp_path)
    words = ["--n-trials", "3", "--n-workers", "1", "--executor", "process"]
    assert main(["run", "study.toml", *words]) == 0
    assert "finished: 3 trials done, cost 27" in capsys.readouterr().out
    assert main(["best", "study.toml", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["params"]) == {"learning_rate", "decay", "schedule"}
