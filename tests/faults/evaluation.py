"""What the trials of a fault test run, and the log that they write; it loads nothing of the package.

The log has one JSON object a line, each written whole and to the disk before anything follows it.
"""

import json
import os
import random
import signal
import time
from pathlib import Path

SETTINGS = "BMBO_FAULTS_SETTINGS"
"""The variable of the environment that holds the settings of `train`."""


def write(path, **line):
    """Appends a line in one piece, and returns when it is on the disk."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (json.dumps({**line, "time": time.time()}) + "\n").encode())
    os.fsync(file)
    os.close(file)


def truth(trial):
    """What a configuration gives, always."""
    return trial.params["x"] - 0.1 * trial.params["n"] + 0.01 * trial.level + (trial.params["kind"] == "b")


def passes(gate, number):
    """Whether who watches the fleet lets a trial end; where nobody has said anything, all do."""
    path = None if gate is None else Path(gate)
    return path is None or not path.exists() or number < float(path.read_text())


def evaluate(trial, *, log, worker, seconds, marked=False, gate=None, deadly=None):
    """Some work, between two lines of the log.

    Where results are marked, each has a number of its own: the record then says which evaluation it is from. The trial
    with the deadly number kills its process.
    """
    write(log, event="start", number=trial.number, worker=worker, pid=os.getpid())
    if trial.number == deadly:
        write(log, event="suicide", number=trial.number, worker=worker, pid=os.getpid())
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(random.Random(trial.number).uniform(0.2, 1.8) * seconds)
    while not passes(gate, trial.number):
        time.sleep(0.02)
    value = int.from_bytes(os.urandom(6), "big") / 2.0**48 if marked else truth(trial)
    write(log, event="end", number=trial.number, worker=worker, value=value, level=trial.level, params=trial.params)
    return value


def train(trial):
    """The same for a command, which gives its objective a trial and nothing else."""
    return evaluate(trial, **json.loads(os.environ[SETTINGS]))
