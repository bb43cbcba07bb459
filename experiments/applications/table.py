"""Tables of an application: configurations with their losses at all levels, from which a stand-in is made.

A row's configuration is a point of one scrambled Sobol sequence, whatever rows are asked for, or one that a run
visited. Rows are appended as they end; the same command goes on where it stopped.
"""

import csv
import hashlib
import json
import math
import os
import platform
import queue
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from scipy.stats import qmc
from tqdm import tqdm

import bmbo
from experiments.applications.application import Application, Config, Deadline, OutOfTimeError
from experiments.applications.evaluation import SEED, TIMEOUT, canonical, capped, evaluate, get, key_of, module_of
from experiments.applications.training_cache import KeptPauses, KeptStates, MemoryShelf, shelf
from experiments.harness.subprocess_job import thread_limits
from experiments.harness.versions import version_of

FOLDER = Path(__file__).resolve().parent.parent / "tables"

SOBOL_SEED = 20220919
"""Any number; it must not change, or tables could not be added to."""


@dataclass(frozen=True)
class Row:
    """One configuration.

    Attributes:
        name: its place in the sequence, or "v" and a digest for one that a run visited.
        losses: a level each; NaN where the time was not enough.
        seconds: of training from each level below; NaN where they were not measured.
        seed: of the training.
    """

    name: str
    config: Config
    losses: tuple[float, ...]
    seconds: tuple[float, ...]
    seed: int


Keep = Callable[[Row], None]

RowMaker = Callable[[str, str, Config, int, float], Row]
"""From an application, a row's name, a configuration, a seed and seconds."""


def path_of(name: str) -> Path:
    """Where the table of an application is kept."""
    return FOLDER / f"{name}.csv"


def sobol_rows(space: bmbo.Space, start: int, stop: int) -> dict[str, Config]:
    """Configurations by the names of their rows, from `start` up to and without `stop`."""
    # Whole powers of two are balanced, and beginnings of a longer sequence are the same.
    sequence = qmc.Sobol(space.dim, scramble=True, rng=np.random.default_rng(SOBOL_SEED))
    points = sequence.random_base2(math.ceil(math.log2(stop)))
    snapped = space.snap(np.asarray(points, np.float64))
    return {str(row): space.decode(tuple(float(u) for u in snapped[row])) for row in range(start, stop)}


def visited_rows(space: bmbo.Space, configs: Iterable[Config]) -> dict[str, Config]:
    """Configurations that are not of the sequence."""
    found: dict[str, Config] = {}
    for config in configs:
        space.encode(config)  # refuses what is outside the space
        found["v" + hashlib.sha256(canonical(config).encode()).hexdigest()[:12]] = config
    return found


def read_configs(path: Path) -> list[Config]:
    """Of a file with one in JSON a line."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def trained(application: Application, name: str, config: Config, seed: int, timeout: float) -> Row:
    """A row, each level continued from the one below it."""
    states = KeptStates(MemoryShelf(), name)
    num_levels = application.problem.ladder.num_levels
    losses, seconds = [math.nan] * num_levels, [math.nan] * num_levels
    deadline = Deadline.after(timeout)
    for level in range(num_levels):
        begun = time.perf_counter()
        try:
            losses[level] = capped(application, application.train(config, level, seed, states, deadline))
        except OutOfTimeError:
            break
        seconds[level] = round(time.perf_counter() - begun, 3)
    return Row(name, config, tuple(losses), tuple(seconds), seed)


def trained_by_name(application: str, name: str, config: Config, seed: int, timeout: float) -> Row:
    """See `trained`."""
    return trained(get(application), name, config, seed, timeout)


def evaluated_by_name(application: str, name: str, config: Config, seed: int, timeout: float) -> Row:
    """A row of what runs may have evaluated: only levels that are not known are trained, and no seconds are told."""
    made = get(application)
    levels = range(made.problem.ladder.num_levels)
    losses = tuple(evaluate(made, config, level, seed=seed, timeout=timeout) for level in levels)
    return Row(name, config, losses, (math.nan,) * len(levels), seed)


def read(path: Path, problem: bmbo.Problem) -> list[Row]:
    """The rows of a table."""
    with path.open(newline="") as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    levels = range(problem.ladder.num_levels)
    return [
        Row(
            line["row"],
            {name: _parsed(param, line[name]) for name, param in problem.space.params},
            tuple(_number(line[f"loss_{level}"]) for level in levels),
            tuple(_number(line[f"seconds_{level}"]) for level in levels),
            int(line["seed"]),
        )
        for line in lines
        # One that was cut short while it was written has no end.
        if line["seed"]
    ]


def _parsed(param: Any, text: str) -> Any:
    if isinstance(param, bmbo.Categorical):
        return {str(choice): choice for choice in param.choices}[text]
    return int(text) if isinstance(param, bmbo.Int) else float(text)


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _text(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


@dataclass(frozen=True)
class Making:
    """A table that is being made.

    Attributes:
        application: its name.
        path: of the table.
        jobs: trainings at once.
        timeout: seconds of a row, or of all rows where they are trained together.
        note: of what cannot be found out: the hardware, the command.
        make_row: makes one, where rows are not trained together.
    """

    application: str
    path: Path
    jobs: int = 1
    seed: int = SEED
    timeout: float = TIMEOUT
    note: str = ""
    quiet: bool = False
    make_row: RowMaker = trained_by_name

    def make(self, wanted: Mapping[str, Config]) -> int:
        """Adds the rows that are not there; gives how many of the wanted ones there are now."""
        application = get(self.application)
        application.prepare()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        there = {row.name for row in read(self.path, application.problem)} if self.path.is_file() else set[str]()
        left = {name: config for name, config in wanted.items() if name not in there}
        bar = tqdm(total=len(wanted), initial=len(wanted) - len(left), unit="row", disable=self.quiet)
        with _opened(self.path) as file, bar:
            if file.tell() == 0:
                _write_head(file, application, self.note)

            def keep(row: Row) -> None:
                if any(math.isnan(loss) for loss in row.losses):
                    # Not in the table, so that the same command tries it again, perhaps with more time.
                    bar.write(f"the time was not enough for row {row.name}", file=sys.stderr)
                    return
                _write_row(file, application.problem, row)
                bar.update()

            if self.make_row is trained_by_name and hasattr(module_of(self.application), "train_many"):
                (self._shared_out if self.jobs > 1 else self._together)(left, keep)
            elif self.jobs > 1:
                self._apart(left, keep)
            else:
                for name, config in left.items():
                    keep(self.make_row(self.application, name, config, self.seed, self.timeout))
        return len({row.name for row in read(self.path, application.problem)} & set(wanted))

    def _apart(self, left: Mapping[str, Config], keep: Keep) -> None:
        """In processes of their own, with a share of the processors each."""
        os.environ.update(thread_limits(max(1, (os.cpu_count() or 1) // self.jobs)))
        pool = ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn"))
        try:
            submitted = [
                pool.submit(self.make_row, self.application, name, config, self.seed, self.timeout)
                for name, config in left.items()
            ]
            for future in as_completed(submitted):
                keep(future.result())
        finally:
            pool.shutdown(cancel_futures=True)

    def _shared_out(self, left: Mapping[str, Config], keep: Keep) -> None:
        """What can be trained together in one process, processes side by side."""
        kinds: dict[Any, dict[str, Config]] = {}
        for name, config in left.items():
            kinds.setdefault(module_of(self.application).kind(config), {})[name] = config
        shares: list[dict[str, Config]] = [{} for _ in range(self.jobs)]
        for group in sorted(kinds.values(), key=len, reverse=True):
            min(shares, key=len).update(group)
        context = get_context("spawn")
        rows: Any = context.Queue()
        workers = [context.Process(target=self._together_into, args=(share, rows)) for share in shares if share]
        for worker in workers:
            worker.start()
        # Asked before the queue is: what a worker has left there is read after its end, also if it was killed.
        going = True
        while going:
            going = any(worker.is_alive() for worker in workers)
            try:
                while True:
                    keep(rows.get(timeout=1.0))
            except queue.Empty:
                pass

    def _together_into(self, left: Mapping[str, Config], rows: Any) -> None:
        """In a process of its own."""
        self._together(left, rows.put)

    def _together(self, left: Mapping[str, Config], keep: Keep) -> None:
        """As many at once as the application likes."""
        application, many = get(self.application), module_of(self.application).train_many
        names, configs = list(left), list(left.values())

        def emit(index: int, losses: Sequence[float], _: int, seconds: float) -> None:
            values = tuple(capped(application, float(loss)) for loss in losses)
            times = (math.nan,) * (len(values) - 1) + (round(seconds, 3),)
            keep(Row(names[index], configs[index], values, times, self.seed))

        pauses = KeptPauses(shelf(), [key_of(application, config, self.seed) for config in configs])
        try:
            many(configs, self.seed, Deadline.after(self.timeout), emit, pauses)
        except OutOfTimeError:
            print("the time was not enough for all rows; the same command goes on", file=sys.stderr)


def _opened(path: Path) -> TextIO:
    """For appending, after a line that was cut short."""
    if path.is_file() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        path.write_bytes(content[: content.rfind(b"\n") + 1])
    return path.open("a", newline="")


def _columns(problem: bmbo.Problem) -> list[str]:
    levels = range(problem.ladder.num_levels)
    return ["row", *problem.space.names, *(f"loss_{e}" for e in levels), *(f"seconds_{e}" for e in levels), "seed"]


def _write_head(file: TextIO, application: Application, note: str) -> None:
    found = {name: version_of(name) for name in ("numpy", "scipy", "scikit-learn", "jax", "optax")}
    packages = [f"{name} {version}" for name, version in found.items() if version]
    versions = ", ".join([f"Python {platform.python_version()}", *packages])
    about = f"python -m experiments table {application.name}; version {application.version} of it; {versions}; {note}"
    print("# " + " ".join(about.rstrip("; ").split()), file=file)
    csv.writer(file, lineterminator="\n").writerow(_columns(application.problem))
    file.flush()


def _write_row(file: TextIO, problem: bmbo.Problem, row: Row) -> None:
    values = [row.config[name] for name in problem.space.names]
    numbers = [_text(value) for value in (*row.losses, *row.seconds)]
    csv.writer(file, lineterminator="\n").writerow([row.name, *values, *numbers, row.seed])
    file.flush()
