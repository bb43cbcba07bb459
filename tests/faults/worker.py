"""One process of a fleet that runs a study: what a fault test kills."""

import argparse
import json
import logging
import os
import random
import signal
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil

import bmbo
from bmbo.cli import main as command_line
from bmbo.cli import run_commands
from bmbo.history import Query
from bmbo.ledger import owners
from bmbo.ledger.full_disk import StorageFullError
from bmbo.ledger.outages import StorageAwayError
from bmbo.ledger.planner_lease import PlannerLease
from faults.evaluation import SETTINGS, evaluate, write

SPACE = {
    "x": bmbo.Float(0.0, 1.0),
    "lr": bmbo.Float(1e-5, 1e-1, log=True),
    "n": bmbo.Int(1, 9),
    "kind": bmbo.Categorical(["a", "b", "c"]),
}
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(3, cost=3), bmbo.Fidelity(9, cost=9)]

FILE = """\
[study]
name = "study"
storage = {storage}
method = "random_search"
seed = {seed}
[space]
x = {{type = "float", low = 0.0, high = 1.0}}
lr = {{type = "float", low = 1e-5, high = 1e-1, log = true}}
n = {{type = "int", low = 1, high = 9}}
kind = {{type = "categorical", choices = ["a", "b", "c"]}}
[[fidelities]]
value = 1
cost = 1
[[fidelities]]
value = 3
cost = 3
[[fidelities]]
value = 9
cost = 9
[objective]
function = "faults.evaluation:train"
"""
"""The same study, for commands."""


@dataclass(frozen=True)
class RandomLevels:
    """Random search over all levels, each trial's by its number: so that results of every kind are recorded."""

    def suggest(self, seed, history, num, carry=None):
        problem, queries = history.problem, []
        for number in range(len(history.trials), len(history.trials) + num):
            unit = problem.space.snap(np.random.default_rng([seed, number]).random(problem.space.dim))
            queries.append(Query(tuple(map(float, unit)), number % problem.ladder.num_levels))
        return queries, carry


def use_cluster_in(folder):
    """Lets Ray, before it is loaded, make or find the cluster of a round: on the loopback address, with its own key."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(folder / "ray-token.txt")


def let_the_clock_jump():
    """Shows this process another time every half second, and other start times of processes, as when a clock is set."""
    now, begun = time.time, psutil.Process.create_time

    def offset():
        return random.Random(os.getpid() + int(2 * time.monotonic())).uniform(-1e5, 1e5)

    time.time = lambda: now() + offset()
    setattr(psutil.Process, "create_time", lambda process: begun(process) + offset())  # noqa: B010 (types)


def freeze_after_looks(share, log):
    """Stops this process at some of its looks at the lease: between the check of a planner and its write."""
    held, draws = PlannerLease.held, random.Random(os.getpid())

    def look(self):
        answer = held(self)
        if answer and draws.random() < share:
            write(log, event="frozen", worker=os.getpid())
            os.kill(os.getpid(), signal.SIGSTOP)
        return answer

    PlannerLease.held = look


def run(arguments, output):
    """As a program would be run, with its output in a file."""
    file = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    # What cannot be written is kept beside the log.
    tempfile.tempdir = str(Path(output).parent)
    bmbo.logging.set_verbosity(logging.WARNING)
    try:
        main(arguments)
    except (StorageFullError, StorageAwayError) as error:
        raise SystemExit(f"bmbo: {error}") from None


def optimize(study, arguments, objective, kept):
    """Plans and runs trials until the limits are reached."""
    study.optimize(
        objective,
        n_trials=arguments.n_trials,
        batch_size=arguments.batch_size,
        n_workers=arguments.n_workers,
        asynchronous=arguments.asynchronous,
        executor=arguments.executor,
        grace=arguments.grace,
        max_failures=0,
        callbacks=[kept],
        show_progress_bar=False,
    )


def ask_and_tell(study, arguments, objective, kept):
    """Asks for one trial after another, until the study has enough results."""
    while len(study.history.told) < arguments.n_trials:
        (trial,) = study.ask()
        kept(study, study.tell(trial, objective(trial)))


def command(arguments, settings):
    """Runs `bmbo worker` on a study file."""
    file = Path(arguments.log).parent / "study.toml"
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(FILE.format(storage=json.dumps(arguments.storage), seed=arguments.seed))
    new.replace(file)
    os.environ[SETTINGS] = json.dumps(settings)
    # Random search of the package takes JAX, which takes a second to load.
    run_commands.method_of = lambda _: RandomLevels()
    options = ["--n-trials", str(arguments.n_trials), "--batch-size", str(arguments.batch_size)]
    options += ["--grace", str(arguments.grace), "--executor", arguments.executor, "--max-failures", "0"]
    options += ["--asynchronous"] if arguments.asynchronous else []
    code = command_line(["worker", str(file), *options])
    if code:
        raise SystemExit(code)


def arguments_of(given):
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--gate", type=Path, help="a file that says how many trials may end")
    parser.add_argument("--n-trials", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--n-workers", type=int, default=1)
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--executor", default="inline")
    parser.add_argument("--role", choices=["optimize", "ask", "command"], default="optimize")
    parser.add_argument("--machine", help="a name: others can then not see whether this process lives")
    parser.add_argument("--ray-address", help="of the cluster that runs the trials")
    parser.add_argument("--clock-jumps", action="store_true")
    parser.add_argument("--freeze", type=float, default=0.0, help="a share of the looks at the lease")
    parser.add_argument("--deadly", type=int, help="the number of a trial that kills its process")
    parser.add_argument("--grace", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=0.1, help="of an evaluation, on average")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--marked", action="store_true")
    parser.add_argument("--model", action="store_true", help="the default method")
    return parser.parse_args(given)


def main(given=None):
    arguments = arguments_of(given)
    log, worker = arguments.log, os.getpid()
    if arguments.machine is not None:
        owners.this_host = lambda: arguments.machine
    if arguments.ray_address is not None:
        os.environ["RAY_ADDRESS"] = arguments.ray_address
        use_cluster_in(Path(log).parent)
    if arguments.clock_jumps:
        let_the_clock_jump()
    if arguments.freeze:
        freeze_after_looks(arguments.freeze, log)
    settings = {"log": log, "worker": worker, "seconds": arguments.seconds, "marked": arguments.marked}
    settings |= {"gate": None if arguments.gate is None else str(arguments.gate), "deadly": arguments.deadly}
    if arguments.role == "command":
        command(arguments, settings)
        write(log, event="left", worker=worker)
        return
    study = bmbo.create_study(
        study_name="study",
        storage=arguments.storage,
        load_if_exists=True,
        space=SPACE,
        fidelities=FIDELITIES,
        seed=arguments.seed,
        method=None if arguments.model else RandomLevels(),
    )

    def kept(_, trial):
        write(log, event="kept", number=trial.number, worker=worker, value=trial.value)

    write(log, event="joined", worker=worker)
    work = ask_and_tell if arguments.role == "ask" else optimize
    work(study, arguments, partial(evaluate, **settings), kept)
    write(log, event="left", worker=worker)


if __name__ == "__main__":
    main()
