"""The rounds of the campaign: each is one study, with kills and one more kind of trouble, audited at its end."""

import contextlib
import itertools
import os
import random
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bmbo.ledger import Ledger
from faults import worker
from faults.audit import audit
from faults.fleet import CONTEXT, LONGEST_SECONDS, Fleet, Log, Tally
from support import servers
from support.cutting_proxy import CuttingProxy
from support.outages import Lock
from support.small_disk import mounted

GRACE = 2.0
AWAY_SECONDS = 3.0
"""An outage: longer than the grace period."""

DEADLY = 7
"""The trial that kills its process, every time."""

MOST_ON_RAY = 6
"""Kills of a round with Ray."""

ONE_CLUSTER = threading.Lock()
"""Rounds of several storages run side by side, and a cluster takes a machine's processors for its start."""

CLUSTER_TRIES = 3
"""How often a cluster is begun that does not come up."""

COMMON = ("--marked", "--batch-size", "4", "--seconds", "0.15")


def running_server() -> servers.Server:
    """The server of PostgreSQL; where none can be started, the round is wrong."""
    server = servers.the_server()
    if isinstance(server, str):
        raise OSError(server)
    return server


STORAGES = ("sqlite", "postgresql", "journal")


@dataclass(frozen=True)
class Place:
    """Where a round happens."""

    kind: str
    folder: Path
    seed: int
    kills: int

    @property
    def n_trials(self):
        return self.kills * 4 // 3 + DEADLY

    def new_storage(self, folder: Path | None = None) -> str:
        """The address of an empty storage."""
        folder = folder or self.folder
        if self.kind == "postgresql":
            return servers.new_database(running_server())
        return f"sqlite:///{folder}/study.db" if self.kind == "sqlite" else f"{folder}/study.log"

    def fleet(self, name, *options, storage=None, **more: Any):
        mode = ["--asynchronous"] if self.seed % 2 else []
        words = [*COMMON, *mode, *options]
        settings: dict[str, Any] = {
            "size": 4,
            "n_trials": self.n_trials,
            "seed": self.seed,
            "grace": GRACE,
            "clocks": True,
            **more,
        }
        return Fleet(self.folder, storage or self.new_storage(), name=name, options=words, **settings)


def of_python(place: Place) -> Tally:
    """Processes that call `optimize`: killed, stopped and continued, frozen as planners, and by a deadly trial."""
    options = ("--deadly", str(DEADLY), "--freeze", "0.05")
    with place.fleet("optimize", *options) as fleet:
        fleet.kill(place.kills, troubles=("pause", "kill_job"), share=0.25)
        fleet.finish()
    return audit(fleet)


def of_commands(place: Place) -> Tally:
    """The command `bmbo worker`, with trials in processes of their own and inline."""
    options = ("--role", "command", "--deadly", str(DEADLY), "--freeze", "0.05")
    with place.fleet("bmbo worker", *options, executors=("inline", "inline", "process", "inline", "inline")) as fleet:
        fleet.kill(place.kills, troubles=("pause", "kill_job"), share=0.25)
        fleet.finish()
    return audit(fleet)


def starved(place: Place) -> Tally:
    """Processes that get no more memory, and are killed a second later."""
    with place.fleet("starved of memory") as fleet:
        fleet.kill(place.kills, troubles=("starve",), share=0.3)
        fleet.finish()
    return audit(fleet)


def asked(place: Place) -> Tally:
    """Processes that ask for trials and tell them, all at once."""
    with place.fleet("ask and tell", "--role", "ask") as fleet:
        fleet.kill(place.kills, troubles=("pause",), share=0.1)
        fleet.finish()
    return audit(fleet, asked=True)


def away(place: Place) -> Tally:
    """A storage that is restarted, or locked, while processes are killed."""
    storage = place.new_storage()

    def restarted():
        server = running_server()
        server.stop()
        time.sleep(AWAY_SECONDS)
        server.start()

    def locked():
        lock = Lock(place.folder / "study.db")
        lock.take()
        time.sleep(AWAY_SECONDS)
        lock.close()

    def journal_locked():
        link = place.folder / "study.log.lock"
        deadline = time.monotonic() + AWAY_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(FileExistsError):
                link.symlink_to(place.folder / "study.log")
                time.sleep(AWAY_SECONDS)
                link.unlink(missing_ok=True)
                return
            time.sleep(0.001)

    outage = {"postgresql": restarted, "sqlite": locked, "journal": journal_locked}[place.kind]
    name = {"postgresql": "server restarted", "sqlite": "database locked", "journal": "journal locked"}[place.kind]
    with place.fleet(name, storage=storage) as fleet:
        fleet.kill(place.kills, troubles=("outage",), share=0.15, outage=outage)
        fleet.finish()
    return audit(fleet)


def cut(place: Place) -> Tally:
    """A network that cuts connections at a share of all commits."""
    server = running_server()
    proxy = CuttingProxy(server.port, seed=place.seed)
    proxy.cut(0.1)
    through = place.new_storage().replace(f":{server.port}/", f":{proxy.port}/")
    with contextlib.closing(proxy), place.fleet("connections cut", storage=through) as fleet:
        fleet.kill(place.kills)
        fleet.finish()
        proxy.cut(0.0)
        fleet.tally.outages = proxy.cuts
        return audit(fleet)


def full(place: Place) -> Tally:
    """A disk that is full for a while: who writes ends, and is started again when there is room."""
    disk = place.folder / "disk"
    disk.mkdir()
    with mounted(disk, megabytes=24) as small:

        def filled():
            small.fill()
            time.sleep(AWAY_SECONDS)
            small.make_room()

        with place.fleet("disk full", storage=place.new_storage(disk), ends=True) as fleet:
            fleet.kill(place.kills, troubles=("outage",), share=0.15, outage=filled)
            fleet.finish()
        return audit(fleet)


def resumed(place: Place) -> Tally:
    """One process that is killed and started again: its record is that of one that was left alone."""
    tally, draws = Tally("one process, resumed"), random.Random(place.seed)
    begun, numbers = time.monotonic(), itertools.count()
    whole, killed = place.folder / "whole", place.folder / "killed"
    options = ["--n-trials", str(place.n_trials), "--batch-size", "4", "--seconds", "0.02", "--seed", str(place.seed)]
    options += ["--executor", "process"] if place.seed % 3 == 0 else []

    def start(folder, storage):
        log = str(folder / "log.jsonl")
        arguments = ["--storage", storage, "--log", log, *options]
        process = CONTEXT.Process(target=worker.run, args=(arguments, str(folder / f"errors-{next(numbers)}.txt")))
        process.start()
        return process

    for folder in (whole, killed):
        folder.mkdir()
    reference = start(whole, f"sqlite:///{whole}/study.db")
    storage, log = place.new_storage(killed), Log(killed / "log.jsonl")
    while True:
        before, process = len(log.events("kept")), start(killed, storage)
        deadline = time.monotonic() + LONGEST_SECONDS
        while len(log.events("kept")) <= before and process.exitcode is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.join(draws.uniform(0.0, 0.1))
        if process.exitcode is not None or tally.kills >= place.kills:
            process.join(LONGEST_SECONDS)
            if process.exitcode != 0:
                tally.problems.append(f"a process ended with {process.exitcode}")
                process.kill()
            break
        tally.planner_kills += 1
        process.kill()
        process.join()
    reference.join(LONGEST_SECONDS)
    found, expected = record_of(storage), record_of(f"sqlite:///{whole}/study.db")
    if found != expected:
        tally.problems.append(f"the record differs from that of a run that was left alone: {found} {expected}")
    tally.trials, tally.evaluations = len(found), len(log.events("start"))
    tally.seconds = time.monotonic() - begun
    return tally


def record_of(storage):
    """What was chosen and what it gave, by number."""
    found = []
    for entry in Ledger.load(storage, "study").read().entries:
        outcome = entry.trial.outcome
        value, cost = (None, None) if outcome is None else (outcome.value, outcome.cost)
        found.append((entry.trial.number, entry.trial.query, value, cost, entry.batch, entry.state))
    return found


def on_ray(place: Place) -> Tally:
    """Drivers that run their trials on a cluster of Ray: drivers and tasks are killed."""
    with ONE_CLUSTER, ray_cluster(place.folder) as address:
        more = {"size": 2, "executors": ("ray",), "clocks": False}
        with place.fleet("Ray", "--n-workers", "2", "--ray-address", address, **more) as fleet:
            fleet.kill(place.kills, troubles=("kill_job",), share=0.3)
            fleet.finish()
    return audit(fleet)


@contextlib.contextmanager
def ray_cluster(folder):
    """A cluster of its own on this machine; its address."""
    file, token = folder / "address.txt", folder / "ray-token.txt"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    for _ in range(CLUSTER_TRIES - 1):
        process = begun_cluster(file)
        # On a busy machine Ray gives up before its own processes have begun.
        if file.exists():
            break
    else:
        process = begun_cluster(file)
    try:
        yield file.read_text()
    finally:
        process.terminate()
        process.join(30)
        process.kill()


def begun_cluster(file):
    """The process of a cluster that wrote its address, or of one that gave up."""
    process = CONTEXT.Process(target=hold_cluster, args=(str(file),))
    process.start()
    while not file.exists() and process.exitcode is None:
        time.sleep(0.1)
    return process


def hold_cluster(file):
    """Starts a cluster, and ends with it when it is told to."""
    worker.use_cluster_in(Path(file).parent)
    import ray  # noqa: PLC0415 (only here)

    from bmbo.executors.ray import _init_here  # noqa: PLC0415 (it loads Ray)

    os.setsid()
    _init_here(4, 0)
    new = Path(file).with_suffix(".new")
    new.write_text(ray.get_runtime_context().gcs_address)
    new.replace(file)
    signal.sigwait({signal.SIGTERM})
    ray.shutdown()


ROUNDS: dict[str, tuple[Callable[[Place], Tally], ...]] = {
    "sqlite": (of_python, of_commands, away, full, on_ray, starved, resumed, asked, of_python, of_commands),
    "postgresql": (of_python, on_ray, of_commands, away, cut, starved, resumed, asked, of_python, of_commands),
    "journal": (of_python, of_commands, away, full, starved, resumed, asked, on_ray, of_python, of_commands),
}
"""What the rounds of a storage are, in turn; one storage at a time has that on Ray, which takes the longest."""


def run_round(kind: str, number: int, kills: int, only: str | None = None) -> Tally:
    """Runs one round; what cannot be audited is wrong too."""
    rounds = [each for each in ROUNDS[kind] if only is None or each.__name__ == only]
    chosen = rounds[number % len(rounds)]
    # A driver needs seconds to join a cluster.
    kills = min(kills, MOST_ON_RAY) if chosen is on_ray else kills
    folder = Path(tempfile.mkdtemp(prefix="bmbo-faults-"))
    begun = time.monotonic()
    try:
        tally = chosen(Place(kind, folder, number, kills))
    except Exception as error:
        tally = Tally(chosen.__name__, seconds=time.monotonic() - begun)
        tally.problems.append(f"{type(error).__name__}: {error}")
    tally.kind = kind
    if tally.problems:
        kept = Path(tempfile.gettempdir()) / f"bmbo-faults-wrong-{secrets.token_hex(4)}"
        shutil.copytree(folder, kept, symlinks=True, ignore_dangling_symlinks=True)
        tally.problems.append(f"kept in {kept}")
    shutil.rmtree(folder, ignore_errors=True)
    return tally
