"""Commands in processes of their own whose storage goes away: they end in time, with one sentence."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import command_line
from support.command_line import STUDY
from support.outages import Lock

# They start processes.
pytestmark = pytest.mark.slow

folder, said = command_line.folder, command_line.said

LONGEST_SECONDS = 120.0
"""Until a process has begun a trial; it takes long on a busy machine."""

ENDS_SECONDS = 60.0
"""After so long Slurm kills; a quiet machine takes ten seconds, and without an end the storage is away for minutes."""


@pytest.fixture
def started(folder):
    processes = []

    def start(*words):
        (folder / "study.toml").write_text(STUDY.replace("objective_of_test:train", "objective_of_test:waits"))
        command = [sys.executable, "-m", "bmbo", *words, "study.toml"]
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        deadline = time.monotonic() + LONGEST_SECONDS
        while not (folder / "calls.txt").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def lock(folder):
    lock = Lock(folder / "study.db")
    yield lock
    lock.close()


def said_until(process, words):
    """What a process writes to standard error, up to a line with some words."""
    lines = []
    while not lines or (lines[-1] and words not in lines[-1]):
        lines.append(process.stderr.readline())
    assert lines[-1], "it ended before it said so: " + "".join(lines)
    return "".join(lines)


@pytest.mark.parametrize(
    "ending",
    [
        ("worker", [signal.SIGTERM], 143),
        ("run", [signal.SIGTERM], 143),
        ("run", [signal.SIGINT, signal.SIGINT], 130),
    ],
    ids=["worker-TERM", "run-TERM", "run-INT-twice"],
)
def test_a_process_ends_in_time_though_its_storage_is_away(started, lock, said, ending):
    command, signals, code = ending
    folder, process = Path.cwd(), started(command)
    lock.take()
    # What is found meanwhile is kept.
    (folder / "go").write_text("")
    said_until(process, "has not answered for")
    for place, number in enumerate(signals):
        if place:
            said_until(process, "stopping:")
        process.send_signal(number)
    begun = time.monotonic()
    _, errors = process.communicate(timeout=LONGEST_SECONDS)
    assert time.monotonic() - begun < ENDS_SECONDS
    assert process.returncode == code
    assert "Traceback" not in errors
    (file,) = folder.glob("bmbo-unwritten-*.json")
    assert str(file) in errors
    lock.give_back()
    assert said("recover", "study.toml", "--results", file)[:2] == (0, "added: trial 0\n")
    assert command_line.record().entries[0].state == "complete"


def test_a_process_that_has_waited_long_enough_ends_with_one_sentence(folder, started, lock):
    process = started("run", "--patience", "2")
    lock.take()
    (folder / "go").write_text("")
    _, errors = process.communicate(timeout=LONGEST_SECONDS)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "study.db has not answered for" in errors.splitlines()[-1]
    assert len(list(folder.glob("bmbo-unwritten-*.json"))) == 1
