"""One process of a fleet that runs a study: what a fault test kills.

Its log has one JSON object a line, each written whole and to the disk before anything follows it.
"""

import argparse
import json
import os
import random
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax

import bmbo
from bmbo.ledger import owners
from bmbo.policies.random_search import random_queries

SPACE = {
    "x": bmbo.Float(0.0, 1.0),
    "lr": bmbo.Float(1e-5, 1e-1, log=True),
    "n": bmbo.Int(1, 9),
    "kind": bmbo.Categorical(["a", "b", "c"]),
}
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(3, cost=3), bmbo.Fidelity(9, cost=9)]


@dataclass(frozen=True)
class RandomLevels:
    """Random search over all levels, each trial's by its number: so that results of every kind are recorded."""

    def suggest(self, seed, history, num, carry=None):
        first = len(history.trials)
        levels = [(first + place) % history.problem.ladder.num_levels for place in range(num)]
        return random_queries(jax.random.key(seed), history.problem, first, levels), carry


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
    return gate is None or not gate.exists() or number < float(gate.read_text())


def objective(log, seconds, marked, worker, trial, *, gate):
    """Some work, between two lines of the log.

    Where results are marked, each has a number of its own: the record then says which evaluation it is from.
    """
    write(log, event="start", number=trial.number, worker=worker, pid=os.getpid())
    time.sleep(random.Random(trial.number).uniform(0.2, 1.8) * seconds)
    while not passes(gate, trial.number):
        time.sleep(0.02)
    value = int.from_bytes(os.urandom(6), "big") / 2.0**48 if marked else truth(trial)
    write(log, event="end", number=trial.number, worker=worker, value=value, level=trial.level, params=trial.params)
    return value


def run(arguments, output):
    """As a program would be run, with its output in a file."""
    file = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    main(arguments)


def main(given=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--gate", type=Path, help="a file that says how many trials may end")
    parser.add_argument("--n-trials", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--executor", default="inline")
    parser.add_argument("--machine", help="a name: others can then not see whether this process lives")
    parser.add_argument("--grace", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=0.1, help="of an evaluation, on average")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--marked", action="store_true")
    parser.add_argument("--model", action="store_true", help="the default method")
    arguments = parser.parse_args(given)
    if arguments.machine is not None:
        owners._host = lambda: arguments.machine
    study = bmbo.create_study(
        study_name="study",
        storage=arguments.storage,
        load_if_exists=True,
        space=SPACE,
        fidelities=FIDELITIES,
        seed=arguments.seed,
        method=None if arguments.model else RandomLevels(),
    )
    log, worker = arguments.log, os.getpid()

    def kept(_, trial):
        write(log, event="kept", number=trial.number, worker=worker, value=trial.value)

    write(log, event="joined", worker=worker)
    study.optimize(
        partial(objective, log, arguments.seconds, arguments.marked, worker, gate=arguments.gate),
        n_trials=arguments.n_trials,
        batch_size=arguments.batch_size,
        asynchronous=arguments.asynchronous,
        executor=arguments.executor,
        grace=arguments.grace,
        callbacks=[kept],
        show_progress_bar=False,
    )
    write(log, event="left", worker=worker)


if __name__ == "__main__":
    main()
