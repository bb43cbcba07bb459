"""Measure large studies and many workers, beside Optuna itself on the same storage.

    python benchmarks/ledger_scale.py --out docs/results/scale.md --json ledger_scale.json

Three tables: steps of a study with thousands of finished trials, the same with thousands of waiting trials, and the
trials per second of processes with an instant objective. Each line is measured in a process of its own. Optuna works on
the same study, through its own functions. Both choose at random, so that no model counts.
"""

import argparse
import contextlib
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import optuna
import psutil

import bmbo
from bmbo.history import Outcome, Query
from bmbo.ledger import open_storage
from bmbo.study.limits import ADDED

KINDS = ("sqlite", "journal", "postgresql")
DIM = 6
SPACE = {f"x{place}": bmbo.Float(0.0, 1.0) for place in range(DIM)}
PARAMS = dict.fromkeys(SPACE, 0.5)
FIDELITIES = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]
STEPS = ("open", "ask", "tell", "enqueue", "run_one")
ROWS_AT_ONCE = 5000
ALEMBIC = ["alembic.command", "alembic.config", "alembic.migration", "alembic.script"]
"""What Optuna loads when it opens the first database of a process."""

Job = Callable[..., Any]


@dataclass(frozen=True)
class Uniform:
    """Choose at random, without JAX."""

    def suggest(self, seed: int, history: Any, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """Return random queries at the top."""
        generator = np.random.default_rng([seed, len(history.trials)])
        return [Query(tuple(map(float, generator.uniform(size=DIM))), 1) for _ in range(num)], carry


@dataclass(frozen=True)
class Place:
    """Hold where a study is, and how many trials it has."""

    kind: str
    storage: str
    finished: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class Steps:
    """Hold the medians of the steps of a tool on a study: wall and processor seconds; and its peak memory in MB."""

    tool: str
    storage: str
    finished: int
    waiting: int
    wall: dict[str, float]
    cpu: dict[str, float]
    memory: float


@dataclass(frozen=True)
class Rate:
    """Hold what several processes of one tool did together.

    Attributes:
        tool: bmbo or Optuna.
        storage: the kind of storage.
        workers: the processes.
        died: the processes that ended with an error.
        trials: the trials that have finished.
        seconds: until the last process ended.
        cpu: the processor seconds of all processes for one trial.
    """

    tool: str
    storage: str
    workers: int
    died: int
    trials: int
    seconds: float
    cpu: float


class Timer:
    """Collect wall and processor seconds of calls by name."""

    def __init__(self) -> None:
        self.wall: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def __call__(self, name: str, call: Callable[[], Any]) -> Any:
        """Return the result of a call, and keep its times under a name."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        self.wall.setdefault(name, []).append(time.perf_counter() - wall)
        self.cpu.setdefault(name, []).append(time.process_time() - cpu)
        return result

    def steps(self, tool: str, place: "Place") -> Steps:
        """Return the medians."""
        medians = [{name: median(each) for name, each in times.items()} for times in (self.wall, self.cpu)]
        return Steps(tool, place.kind, place.finished, place.waiting, medians[0], medians[1], peak_memory())


def peak_memory() -> float:
    """Return the largest memory of this process so far in MB, where the system tells it, else that of now."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return psutil.Process().memory_info().rss / 2**20


def study_in(storage: str) -> bmbo.Study:
    return bmbo.create_study(
        study_name="study",
        storage=storage,
        load_if_exists=True,
        space=SPACE,
        fidelities=FIDELITIES,
        method=Uniform(),
    )


def instant(trial: bmbo.Trial) -> float:
    return trial.params["x0"]


def instant_of_optuna(trial: optuna.Trial) -> float:
    first, *_ = (trial.suggest_float(name, 0.0, 1.0) for name in SPACE)
    return first


def fill(place: Place) -> None:
    """Fill a study with old results at both levels and with waiting trials."""
    ledger, generator = study_in(place.storage)._ledger, np.random.default_rng(0)

    def query(number: int) -> Query:
        return Query(tuple(map(float, generator.uniform(size=DIM))), number % 2, {ADDED: True})

    for first in range(0, place.finished, ROWS_AT_ONCE):
        numbers = range(first, min(first + ROWS_AT_ONCE, place.finished))
        ledger.add_rows([(str(number), query(number), Outcome(float(number), 1.0, 1.0)) for number in numbers])
    if place.waiting:
        ledger.plan(0, [query(number) for number in range(place.waiting)], lambda: True)


def quiet() -> None:
    bmbo.logging.set_verbosity(bmbo.logging.ERROR)
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def warm_up(folder: Path) -> None:
    """Load what the first storage of a process loads, which must not count."""
    quiet()
    study_in(f"sqlite:///{folder}/warm-{psutil.Process().pid}.db").optimize(
        instant, n_trials=1, show_progress_bar=False
    )


def steps_of_bmbo(place: Place, folder: Path, repeats: int) -> Steps:
    warm_up(folder)
    timer = Timer()

    def opened() -> bmbo.Study:
        study = bmbo.load_study(study_name="study", storage=place.storage, method=Uniform())
        _ = study.history
        return study

    study = timer("open", opened)

    def stop(_: bmbo.Study, trial: bmbo.Trial) -> None:
        del trial
        study.stop()

    def run_one() -> None:
        study.optimize(instant, n_trials=10**6, callbacks=[stop], show_progress_bar=False)

    for _ in range(repeats):
        timer("enqueue", lambda: study.enqueue(PARAMS))
        (asked,) = timer("ask", study.ask)
        timer("tell", lambda asked=asked: study.tell(asked, 1.0))

        timer("run_one", run_one)
    return timer.steps("bmbo", place)


def steps_of_optuna(place: Place, folder: Path, repeats: int) -> Steps:
    warm_up(folder)
    timer = Timer()

    def opened() -> optuna.Study:
        # Opened by us, for a journal has no URL in Optuna.
        backend = place.storage if "://" in place.storage else open_storage(place.storage)
        sampler = optuna.samplers.RandomSampler(seed=0)
        study = optuna.load_study(study_name="study", storage=backend, sampler=sampler)
        _ = study.get_trials(deepcopy=False)
        return study

    study = timer("open", opened)

    def ask() -> optuna.Trial:
        trial = study.ask()
        instant_of_optuna(trial)
        return trial

    for _ in range(repeats):
        timer("enqueue", lambda: study.enqueue_trial(PARAMS))
        asked = timer("ask", ask)
        timer("tell", lambda asked=asked: study.tell(asked, 1.0))
        timer("run_one", lambda: study.optimize(instant_of_optuna, n_trials=1))
    return timer.steps("Optuna", place)


def work(tool: str, storage: str, sizes: tuple[int, int], start: Any, answers: Any) -> None:
    """Run one process of several, and report its seconds; `sizes` are the number of processes and of trials."""
    quiet()
    workers, num_trials = sizes
    if tool == "bmbo":
        study = study_in(storage)

        def run() -> None:
            study.optimize(
                instant, n_trials=num_trials, batch_size=workers, asynchronous=workers > 1, show_progress_bar=False
            )
    else:
        backend = storage if "://" in storage else open_storage(storage)
        theirs = optuna.load_study(study_name="optuna", storage=backend, sampler=optuna.samplers.RandomSampler())
        most = optuna.study.MaxTrialsCallback(num_trials, states=None)

        def run() -> None:
            theirs.optimize(instant_of_optuna, n_trials=num_trials, callbacks=[most])

    start.wait()
    begun, cpu, died = time.perf_counter(), time.process_time(), False
    try:
        run()
    # Errors of every kind: how many processes end with one is part of what is measured.
    except Exception:
        died = True
    answers.put((time.perf_counter() - begun, time.process_time() - cpu, died))


def rate_of(tool: str, place: Place, sizes: tuple[int, int], context: Any) -> Rate:
    """Return what processes of a tool did together; `sizes` are the number of processes and of trials."""
    quiet()
    storage, (workers, _) = place.storage, sizes
    study_in(storage)
    backend = storage if "://" in storage else open_storage(storage)
    if tool == "Optuna":
        optuna.create_study(study_name="optuna", storage=backend)
    start, answers = context.Barrier(workers), context.Queue()
    arguments = (tool, storage, sizes, start, answers)
    processes = [context.Process(target=work, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    told = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    study = optuna.load_study(study_name="optuna" if tool == "Optuna" else "study", storage=backend)
    num = sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))
    walls, cpus, deaths = zip(*told, strict=True)
    return Rate(tool, place.kind, workers, sum(deaths), num, max(walls), sum(cpus) / num)


def answer(answers: Any, job: Job, *arguments: Any) -> None:
    answers.put(job(*arguments))


def apart(context: Any, job: Job, *arguments: Any) -> Any:
    """Return the result of a function that is called in a process of its own."""
    answers = context.Queue()
    process = context.Process(target=answer, args=(answers, job, *arguments))
    process.start()
    result = answers.get()
    process.join()
    return result


def steps_rows(measured: Sequence[Steps]) -> list[list[str]]:
    def shown(each: Steps, name: str) -> str:
        return f"{1000 * each.wall[name]:,.1f} ({1000 * each.cpu[name]:,.1f})"

    return [
        [
            each.storage,
            each.tool,
            f"{each.finished:,}",
            f"{each.waiting:,}",
            *(shown(each, name) for name in STEPS),
            f"{each.memory:,.0f}",
        ]
        for each in measured
    ]


def rate_rows(measured: Sequence[Rate]) -> list[list[str]]:
    speed = {(each.storage, each.workers, each.tool): each.trials / each.seconds for each in measured}
    return [
        [
            each.storage,
            str(each.workers),
            each.tool,
            str(each.died),
            str(each.trials),
            f"{each.trials / each.seconds:,.1f}",
            f"{1000 * each.cpu:,.1f}",
            f"{speed[each.storage, each.workers, each.tool] / speed[each.storage, each.workers, 'Optuna']:.2f}",
        ]
        for each in measured
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storages", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--sizes", nargs="*", type=int, default=[5000, 20000], help="finished trials")
    parser.add_argument("--waiting", nargs="*", type=int, default=[2000], help="waiting trials")
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 64])
    parser.add_argument("--trials", type=int, default=192, help="trials of all processes together")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each step; the median is shown")
    parser.add_argument("--quick", action="store_true", help="use a tiny budget, only to see that the script runs")
    parser.add_argument("--out", type=Path, help="Markdown file for the tables")
    parser.add_argument("--json", type=Path, help="JSON file for every figure")
    given = parser.parse_args()
    sizes, queues, workers = ([40], [20], [2]) if given.quick else (given.sizes, given.waiting, given.workers)
    trials, repeats = (8, 2) if given.quick else (given.trials, given.repeats)
    # They load JAX, which the processes that are measured must not have.
    from ledger_throughput import storages  # noqa: PLC0415
    from surrogate_table import finite, heading, markdown, write  # noqa: PLC0415

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ledger_scale", *ALEMBIC])
    steps: list[Steps] = []
    rates: list[Rate] = []
    with storages() as new:
        folder = Path(str(new("journal"))).parent
        kinds = [kind for kind in given.storages if new(kind) is not None]
        for kind in kinds:
            for finished, waiting in [*((size, 0) for size in sizes), *((0, queue) for queue in queues)]:
                place = Place(kind, str(new(kind)), finished, waiting)
                apart(context, fill, place)
                measures = (steps_of_bmbo, steps_of_optuna)
                steps += [apart(context, measure, place, folder, repeats) for measure in measures]
            for num in workers:
                both = (num, max(trials, num))
                rates += [rate_of(tool, Place(kind, str(new(kind))), both, context) for tool in ("bmbo", "Optuna")]
    cores = f"{psutil.cpu_count()} cores; the load of the last 15 minutes was {psutil.getloadavg()[2]:.1f}."
    times = ["open", "ask", "tell", "enqueue", "one more trial"]
    header = ["storage", "tool", "finished", "waiting", *(f"{name}, ms (processor)" for name in times), "memory, MB"]
    of_rates = [
        "storage",
        "workers",
        "tool",
        "died",
        "trials",
        "trials a second",
        "processor ms a trial",
        "ratio to Optuna",
    ]
    parts = [
        heading("ledger_scale.py", ("optuna", "sqlalchemy", "psycopg")),
        f"{cores} Wall time, and the processor time of the process in parentheses. To open is to load the study and to "
        "read all of it.",
        *([markdown(header, steps_rows(steps))] if steps else []),
        *([markdown(of_rates, rate_rows(rates))] if rates else []),
    ]
    text = "\n\n".join(parts)
    print(text)
    write(given.out, text)
    record = {"steps": [asdict(each) for each in steps], "rates": [asdict(each) for each in rates]}
    write(given.json, json.dumps(finite(record), indent=1))


if __name__ == "__main__":
    main()
