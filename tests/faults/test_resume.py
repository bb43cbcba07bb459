"""A process that is killed and started again, several times, leaves the same record as one that was left alone."""

import random
import subprocess
import sys
import time

import pytest

from bmbo.ledger import Ledger
from faults import worker
from faults.fleet import Log
from support import servers

postgresql, postgresql_url = servers.postgresql, servers.postgresql_url

LONGEST_SECONDS = 600.0
"""For one process, on a busy machine."""


def started(folder, storage, *options):
    command = [sys.executable, worker.__file__, "--storage", storage, "--log", str(folder / "log.jsonl"), *options]
    with (folder / "errors.txt").open("ab") as errors:
        return subprocess.Popen(command, stdout=errors, stderr=errors)


def run_to_its_end(folder, storage, *options):
    process = started(folder, storage, *options)
    assert process.wait(LONGEST_SECONDS) == 0, (folder / "errors.txt").read_text()[-2000:]


def run_with_kills(folder, storage, num, delays, *options, first=0):
    """Kills the process so many times, each after it has got something done and a delay more; gives the kills.

    The first one comes when more than `first` trials are done.
    """
    log = Log(folder / "log.jsonl")
    for place in range(num):
        before = max(first, len(log.events("kept")))
        process = started(folder, storage, *options)
        deadline = time.monotonic() + LONGEST_SECONDS
        while len(log.events("kept")) <= before and process.poll() is None:
            assert time.monotonic() < deadline, "it gets nothing done"
            time.sleep(0.005)
        time.sleep(delays.uniform(0.0, 0.3))
        process.kill()
        if process.wait() == 0:
            return place
    run_to_its_end(folder, storage, *options)
    return num


def record(storage):
    """What was chosen and what it gave, by number."""
    entries = Ledger.load(storage, "study").read().entries
    found = []
    for entry in entries:
        trial = entry.trial
        assert trial.outcome is not None
        found.append((trial.number, trial.query, trial.value, trial.outcome.cost, entry.batch, entry.state))
    return found


def folders(path):
    for name in ("whole", "killed"):
        (path / name).mkdir()
    return path / "whole", path / "killed"


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["sqlite", "journal", "postgresql"])
def test_a_resumed_run_has_the_record_of_one_that_was_left_alone(kind, seed, tmp_path, request):
    whole, killed = folders(tmp_path)
    options = ["--n-trials", "30", "--batch-size", "4", "--seconds", "0.02", "--seed", str(seed)]
    run_to_its_end(whole, f"sqlite:///{whole}/study.db", *options)
    storages = {"sqlite": f"sqlite:///{killed}/study.db", "journal": str(killed / "study.log")}
    storage = storages.get(kind) or request.getfixturevalue("postgresql_url")
    # Of a journal whose writer was killed Optuna waits half a minute for the lock: killed once.
    kills = run_with_kills(killed, storage, 1 if kind == "journal" else 4, random.Random(seed), *options)
    assert kills >= 1
    assert record(storage) == record(f"sqlite:///{whole}/study.db")


@pytest.mark.slow
def test_a_resumed_run_of_the_model_has_the_record_of_one_that_was_left_alone(tmp_path):
    whole, killed = folders(tmp_path)
    options = ["--n-trials", "24", "--batch-size", "3", "--seconds", "0.1", "--seed", "3", "--model"]
    run_to_its_end(whole, f"sqlite:///{whole}/study.db", *options)
    storage, delays = f"sqlite:///{killed}/study.db", random.Random(3)
    # After the trials that it begins with. On a busy machine a kill can come when the run has ended already.
    kills = run_with_kills(killed, storage, 3, delays, *options, first=12)
    assert kills >= 1
    found = record(storage)
    assert found == record(f"sqlite:///{whole}/study.db")
    assert {query.level for _, query, *_ in found} == {0, 1, 2}
