"""Commands whose disk becomes full while they run a trial: they end with one sentence, and the study goes on later."""

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from bmbo.ledger import Ledger
from support import small_disk as disks

pytestmark = pytest.mark.faults

small_disk = disks.small_disk

N_TRIALS, FULL_AT = 12, 5

LONGEST_SECONDS = 120.0
"""For one command; a run that waits for its storage takes ten minutes."""

STUDY = """\
[study]
name = "study"
storage = {storage}
method = "random_search"
seed = 3
[space.x]
type = "float"
low = 0
high = 1
[[fidelities]]
value = 1
cost = 1
[objective]
function = "objective_of_test:train"
[run]
n_trials = {num}
batch_size = 4
"""
OBJECTIVE = """\
from pathlib import Path

def train(trial):
    with open("log.txt", "a") as log:
        log.write(f"{trial.number}\\n")
    ballast = Path("ballast.txt")
    if trial.number == FULL_AT and ballast.exists():
        try:
            with open(ballast.read_text(), "ab", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError:
            pass
    return trial.params["x"]
"""


def command(folder, *words):
    """Runs a command to its end: exit code, and all that it says."""
    whole = [sys.executable, "-m", "bmbo", *words]
    # A temporary folder of another disk.
    environment = {**os.environ, "TMPDIR": str(folder)}
    ended = subprocess.run(
        whole, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS
    )
    return ended.returncode, ended.stdout + ended.stderr


def folder_with(path, storage):
    path.mkdir()
    (path / "study.toml").write_text(STUDY.format(storage=json.dumps(storage), num=N_TRIALS))
    (path / "objective_of_test.py").write_text(f"FULL_AT = {FULL_AT}\n{OBJECTIVE}")
    return path


def record(storage):
    entries = Ledger.load(storage, "study").read().entries
    return [(entry.trial.number, entry.trial.query, entry.trial.value, entry.batch, entry.state) for entry in entries]


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_disk_that_becomes_full_costs_no_trial(kind, tmp_path, small_disk):
    alone = folder_with(tmp_path / "alone", "sqlite:///study.db")
    assert command(alone, "run", "study.toml")[0] == 0
    disk = small_disk.folder
    storage = {"sqlite": f"sqlite:///{disk}/study.db", "journal": f"{disk}/study.log"}[kind]
    filled = folder_with(tmp_path / "filled", storage)
    (filled / "ballast.txt").write_text(str(disk / "ballast"))
    code, said = command(filled, "run", "study.toml")
    # SQLite may have given its log back.
    small_disk.fill()
    again = command(filled, "run", "study.toml")
    for each in ((code, said), again):
        assert each[0] == 1, each
        assert f"the disk of {disk}/study." in each[1].splitlines()[-1]
        assert f"(0 MB are free in {disk})" in each[1].splitlines()[-1]
        assert "Traceback" not in each[1]
        assert "SELECT" not in each[1]
    # What was found is where there was room. A journal may have taken the trial in the rest of its last page.
    ((number, file),) = re.findall(r"the results of trials (\d+); they are in (\S+\.json)", said)
    assert int(number) in (FULL_AT, FULL_AT + 1)
    assert not list(disk.glob("bmbo-unwritten-*"))
    small_disk.make_room()
    (filled / "ballast.txt").unlink()
    code, said = command(filled, "recover", "study.toml", "--results", file)
    assert (code, said) == (0, f"added: trial {number}\n")
    assert command(filled, "run", "study.toml")[0] == 0
    assert record(storage) == record(f"sqlite:///{alone}/study.db")
    # The record has room for a claim where it has none for a result: then this trial was run again.
    runs = Counter((filled / "log.txt").read_text().split())
    assert runs.pop(number) <= 2
    assert sorted(runs.items()) == sorted((str(each), 1) for each in range(N_TRIALS) if str(each) != number)
