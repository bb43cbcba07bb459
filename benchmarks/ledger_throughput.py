"""Measure what the ledger costs: trials per hour with an instant objective, and the times of a large study.

    python benchmarks/ledger_throughput.py --out docs/results/throughput.md --json ledger_throughput.json

Workers are processes that run one study together. PostgreSQL takes part if the server of the tests can be started: on
loopback, from the package pgserver or from the system.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

import bmbo
from bmbo.history import Dataset, Outcome, Query
from bmbo.ledger import Ledger, PlannerLease, open_storage
from bmbo.study.limits import ADDED
from surrogate_table import finite, heading, markdown, write

KINDS = ("sqlite", "journal", "postgresql")
MEASURED = {
    Ledger: ("read", "plan", "complete_plan", "claim", "finish", "requeue", "note_run"),
    PlannerLease: ("acquire", "held", "release"),
}
"""All calls of the ledger in a run. Heartbeats do not count: another thread sends them, and nothing waits for them."""

SPACE = {f"x{place}": bmbo.Float(0.0, 1.0) for place in range(6)}
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]


@dataclass(frozen=True)
class Throughput:
    """Hold the measurements of a run with an instant objective.

    Attributes:
        storage: the kind of storage.
        workers: the number of processes.
        trials: the number of trials.
        seconds: the seconds from the planning of the first trial to the end of the last one. All processes were started
            before.
        share: the share of their time that the processes spent in calls of the ledger.
        each: the seconds of ledger calls per trial.
        cpu: the processor seconds of ledger calls per trial.
    """

    storage: str
    workers: int
    trials: int
    seconds: float
    share: float
    each: float
    cpu: float


@dataclass(frozen=True)
class Large:
    """Hold the median seconds of steps in a large study. Opening and the first reading are measured once."""

    storage: str
    trials: int
    open: float
    first_read: float
    read: float
    suggest: float
    ask: float
    dataset: float
    run_one: float


class Stopwatch:
    """Add up the time of the outermost measured calls in the thread that made this object."""

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0
        self._depth = 0
        self._thread = threading.get_ident()

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and adds its time."""

        @wraps(function)
        def watched(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() != self._thread or self._depth:
                return function(*arguments, **options)
            self._depth, begun, cpu = 1, time.perf_counter(), time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self._depth = 0
                self.seconds += time.perf_counter() - begun
                self.cpu += time.thread_time() - cpu

        return watched


def instant(trial: bmbo.Trial) -> float:
    return trial.params["x0"]


def study_in(storage: str) -> bmbo.Study:
    return bmbo.create_study(
        study_name="study",
        storage=storage,
        load_if_exists=True,
        space=SPACE,
        fidelities=FIDELITIES,
        method=bmbo.random_search(),
    )


def work(storage: str, workers: int, num_trials: int, start: Any, answers: Any) -> None:
    """Run one process of a run. Start together with the others, and report the seconds in all and in the ledger."""
    stopwatch = Stopwatch()
    for kind, names in MEASURED.items():
        for name in names:
            setattr(kind, name, stopwatch.watch(getattr(kind, name)))
    study = study_in(storage)
    # This compiles what random search needs.
    study.policy.suggest(0, study.history, 1)
    start.wait()
    stopwatch.seconds, stopwatch.cpu, begun = 0.0, 0.0, time.perf_counter()
    options: dict[str, Any] = {"asynchronous": True, "batch_size": workers} if workers > 1 else {}
    study.optimize(instant, n_trials=num_trials, executor="inline", show_progress_bar=False, **options)
    answers.put((time.perf_counter() - begun, stopwatch.seconds, stopwatch.cpu))


def measure_throughput(kind: str, storage: str, workers: int, num_trials: int) -> Throughput:
    study_in(storage)
    context = multiprocessing.get_context("spawn")
    start, answers = context.Barrier(workers), context.Queue()
    arguments = (storage, workers, num_trials, start, answers)
    processes = [context.Process(target=work, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    told = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    seconds, inside, cpu = (np.array(column) for column in zip(*told, strict=True))
    return Throughput(
        *(kind, workers, num_trials, float(seconds.max())),
        share=float(inside.sum() / seconds.sum()),
        each=float(inside.sum() / num_trials),
        cpu=float(cpu.sum() / num_trials),
    )


def fill(storage: str, num_trials: int) -> None:
    """Fill a study with results at both levels, in the way that old results are added."""
    study = study_in(storage)
    ledger = Ledger.load(storage, "study")
    generator = np.random.default_rng(0)
    for place in tqdm(range(num_trials), unit="trial", leave=False):
        unit = tuple(float(each) for each in generator.uniform(size=study.problem.space.dim))
        ledger.add(Query(unit, place % 2, {ADDED: True}), Outcome(unit[0], 1.0, 1.0))


def timed(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the median of several times, and the last result."""
    times: list[float] = []
    result = None
    for _ in range(repeats):
        begun = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begun)
    return float(np.median(times)), result


def measure_large(kind: str, storage: str, num_trials: int, repeats: int) -> Large:
    fill(storage, num_trials)
    # The first storage of a process imports Alembic, which must not count.
    open_storage(storage)
    method = bmbo.random_search()
    opened, study = timed(1, lambda: bmbo.load_study(study_name="study", storage=storage, method=method))
    first, history = timed(1, lambda: study.history)
    read, _ = timed(repeats, lambda: study.history)
    method.suggest(0, history, 1)
    suggest, _ = timed(repeats, lambda: method.suggest(0, history, 1))
    ask, _ = timed(repeats, study.ask)
    dataset, _ = timed(repeats, lambda: Dataset.of(history))
    trials = iter(range(1, repeats + 1))
    counted = sum(ADDED not in trial.query.tag for trial in study.history.trials)

    def run_one() -> None:
        study.optimize(instant, n_trials=counted + next(trials), show_progress_bar=False)

    return Large(kind, num_trials, opened, first, read, suggest, ask, dataset, timed(repeats, run_one)[0])


@contextmanager
def storages() -> Generator[Callable[[str], str | None], None, None]:
    """Yield a function that returns a new storage of a kind, or None if there is no server."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from support import servers  # noqa: PLC0415 (it belongs to the tests, which are not on the path before)

    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(10**6))

        def new(kind: str) -> str | None:
            if kind == "postgresql":
                server = servers.the_server()
                return None if isinstance(server, str) else servers.new_database(server)
            name = os.path.join(folder, f"study-{next(numbers)}")
            return f"sqlite:///{name}.db" if kind == "sqlite" else f"{name}.log"

        yield new


def throughput_table(measured: list[Throughput]) -> str:
    rows = [
        [
            each.storage,
            str(each.workers),
            str(each.trials),
            f"{3600 * each.trials / each.seconds:,.0f}",
            f"{1000 * each.each:.1f} ({1000 * each.cpu:.1f})",
            f"{100 * each.share:.0f} %",
        ]
        for each in measured
    ]
    header = ["storage", "workers", "trials", "trials an hour", "ledger, ms a trial (processor)"]
    header += ["ledger's share of the time"]
    return markdown(header, rows)


def large_table(measured: list[Large]) -> str:
    names = ["open", "first_read", "read", "suggest", "ask", "dataset", "run_one"]
    rows = [
        [each.storage, f"{each.trials:,}", *(f"{1000 * getattr(each, name):,.1f}" for name in names)]
        for each in measured
    ]
    header = ["storage", "trials", "open, ms", "first reading, ms", "later reading, ms", "random suggestion, ms"]
    return markdown([*header, "ask, ms", "Dataset, ms", "a run of one trial, ms"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storages", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--trials", type=int, default=200, help="trials of each run with the instant objective")
    parser.add_argument("--sizes", nargs="*", type=int, default=[100, 5000], help="numbers of trials of large studies")
    parser.add_argument("--repeats", type=int, default=5, help="number of timings; the median is shown")
    parser.add_argument("--quick", action="store_true", help="use a tiny budget, only to see that the script runs")
    parser.add_argument("--out", type=Path, help="Markdown file for the tables")
    parser.add_argument("--json", type=Path, help="JSON file for every figure")
    arguments = parser.parse_args()
    num_trials, sizes = (16, [50]) if arguments.quick else (arguments.trials, arguments.sizes)
    runs: list[Throughput] = []
    large: list[Large] = []
    with storages() as new:
        kinds = [kind for kind in arguments.storages if new(kind) is not None]
        for workers in arguments.workers:
            runs += [measure_throughput(kind, str(new(kind)), workers, num_trials) for kind in kinds]
        for size in sizes:
            large += [measure_large(kind, str(new(kind)), size, arguments.repeats) for kind in kinds]
    packages = ("jax", "optuna", "sqlalchemy", "psycopg")
    parts = [heading("ledger_throughput.py", packages), f"{os.cpu_count()} cores."]
    text = "\n\n".join([*parts, throughput_table(runs), large_table(large)])
    print(text)
    write(arguments.out, text)
    record = {"throughput": [asdict(each) for each in runs], "large": [asdict(each) for each in large]}
    write(arguments.json, json.dumps(finite(record), indent=1))


if __name__ == "__main__":
    main()
