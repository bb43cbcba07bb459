"""The command line in real processes: interrupts, and workers together."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bmbo.ledger import Ledger
from bmbo.ledger.planner_lease import current_term
from support import command_line
from support.command_line import STUDY, record

# Every test starts processes.
pytestmark = pytest.mark.slow

# Fixtures that both files of tests share.
folder, said = command_line.folder, command_line.said


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Started(subprocess.Popen[bytes]):
    """A process that writes its output to files."""

    paths: list[Path]

    def output(self):
        return [path.read_text() for path in self.paths]


def started(folder, *words):
    """A command in a process of its own."""
    # Output in files: nobody reads a pipe meanwhile.
    paths = [folder / f"{time.monotonic_ns()}.{end}" for end in ("out", "err")]
    with paths[0].open("w") as out, paths[1].open("w") as err:
        process = Started([sys.executable, "-m", "bmbo", *words], cwd=folder, stdout=out, stderr=err)
    process.paths = paths
    return process


def waiting_study(folder):
    """The study with an objective that waits until a file `go` is there."""
    (folder / "study.toml").write_text(STUDY.replace("objective_of_test:train", "objective_of_test:waits"))


def calls(folder):
    path = folder / "calls.txt"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def test_the_first_interrupt_stops_cleanly_and_resume_completes(folder, said):
    waiting_study(folder)
    process = started(folder, "run", "study.toml")
    until(lambda: calls(folder))
    state = json.loads(said("status", "study.toml", "--json")[1])
    assert state["trials"]["running"] == 1
    assert state["planner"] == state["running"][0]["owner"]
    assert state["planner"].endswith(f":{process.pid}")
    assert f":{process.pid}" in said("status", "study.toml")[1]
    process.send_signal(signal.SIGINT)
    until(lambda: "stopping" in process.output()[1])
    (folder / "go").touch()
    assert process.wait(60) == 130
    out, err = process.output()
    # What ran was awaited, and nothing more begun.
    assert "stopped: 1 trials done" in out
    assert "bmbo resume study.toml" in out
    assert "Traceback" not in err
    assert [number for number, _ in calls(folder)] == ["0"]
    assert said("resume", "study.toml")[0] == 0
    assert [number for number, _ in calls(folder)] == ["0", "1", "2", "3", "4", "5"]
    assert not record().history.pending


@pytest.mark.parametrize(("second", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_interrupt_ends_at_once_and_resume_completes(folder, said, second, code):
    waiting_study(folder)
    process = started(folder, "run", "study.toml")
    until(lambda: calls(folder))
    if second is signal.SIGINT:
        process.send_signal(signal.SIGINT)
        until(lambda: "stopping" in process.output()[1])
    process.send_signal(second)
    assert process.wait(60) == code
    # Nobody has to find out that it is gone.
    assert [entry.state for entry in record().entries] == ["waiting", "waiting"]
    assert not current_term(Ledger.load("sqlite:///study.db", "study").storage, "study")
    assert "Traceback" not in process.output()[1]
    assert "bmbo resume" in "".join(process.output())
    (folder / "go").touch()
    assert said("resume", "study.toml")[0] == 0
    # The one that was cut off ran again, under its own number.
    assert [number for number, _ in calls(folder)] == ["0", "0", "1", "2", "3", "4", "5"]
    assert [trial.number for trial in record().history.done] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("first", "second"),
    [((), ()), (("--executor", "inline"), ("--executor", "inline", "--no-plan"))],
    ids=["both plan", "one plans"],
)
def test_two_workers_finish_a_study_together(folder, said, first, second):
    waiting_study(folder)
    assert said("run", "study.toml", "--n-trials", "1", "--timeout", "1e-6")[0] == 0
    where = ["--storage", "sqlite:///study.db", "--study", "study", "--objective", "objective_of_test:waits"]
    words = ["worker", *where, "--n-trials", "8", "--batch-size", "2", "--method", "random_search"]
    workers = [started(folder, *words, *first), started(folder, *words, *second)]
    # Each has one of the first batch, and neither goes on before both do.
    until(lambda: len(calls(folder)) == 2)
    (folder / "go").touch()
    for process in workers:
        assert process.wait(60) == 0, process.output()
    done = record()
    assert [entry.state for entry in done.entries] == ["complete"] * 8
    assert sorted(int(number) for number, _ in calls(folder)) == list(range(8))
    assert len({entry.owner for entry in done.entries}) == 2
