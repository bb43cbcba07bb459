"""Train an application at many configurations and all levels, and write the losses to a table for its stand-in.

The configuration of a row is a point of one scrambled Sobol sequence, or a configuration that a run visited. A row does
not depend on which other rows are asked for. Rows are appended as they finish, and the same command continues where it
stopped.
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
from experiments.applications.cached_evaluation import (
    SEED,
    TIMEOUT,
    canonical,
    capped,
    evaluate,
    get_application,
    key_of,
    module_of,
)
from experiments.applications.training_cache import MemoryStore, StoredPauses, StoredStates, default_store
from experiments.harness.package_versions import version_of
from experiments.harness.subprocess_job import thread_limits

FOLDER = Path(__file__).resolve().parent.parent / "tables"

SOBOL_SEED = 20220919
"""Any number. It must not change, because new rows must belong to the same sequence."""


@dataclass(frozen=True)
class Row:
    """Hold one row of a table.

    Attributes:
        name: the index in the sequence, or "v" and a digest for a configuration that a run visited.
        config: the configuration.
        losses: the loss of each level; NaN if the time was not enough.
        seconds: the seconds of training from the level below, for each level; NaN if they were not measured.
        seed: the seed of the training.
    """

    name: str
    config: Config
    losses: tuple[float, ...]
    seconds: tuple[float, ...]
    seed: int


Keep = Callable[[Row], None]

RowMaker = Callable[[str, str, Config, int, float], Row]
"""Makes a row from the names of an application and a row, a configuration, a seed, and the seconds that it may take."""


def path_of(name: str) -> Path:
    """Return the path of an application's table."""
    return FOLDER / f"{name}.csv"


def sobol_rows(space: bmbo.Space, start: int, stop: int) -> dict[str, Config]:
    """Return the configurations of the rows from `start` to `stop - 1`, by the names of the rows."""
    # A power of two gives a balanced sequence, and a longer sequence begins with the same points.
    sequence = qmc.Sobol(space.dim, scramble=True, rng=np.random.default_rng(SOBOL_SEED))
    points = sequence.random_base2(math.ceil(math.log2(stop)))
    snapped = space.snap(np.asarray(points, np.float64))
    return {str(row): space.decode(tuple(float(u) for u in snapped[row])) for row in range(start, stop)}


def visited_rows(space: bmbo.Space, configs: Iterable[Config]) -> dict[str, Config]:
    """Return configurations that are not in the sequence, by the names of their rows."""
    found: dict[str, Config] = {}
    for config in configs:
        space.encode(config)  # raises an error if it is outside the space
        found["v" + hashlib.sha256(canonical(config).encode()).hexdigest()[:12]] = config
    return found


def read_configs(path: Path) -> list[Config]:
    """Return the configurations of a file with one per line, in JSON."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def train_row(application: Application, name: str, config: Config, seed: int, timeout: float) -> Row:
    """Return a row, with each level continued from the one below it."""
    states = StoredStates(MemoryStore(), name)
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


def train_row_by_name(application: str, name: str, config: Config, seed: int, timeout: float) -> Row:
    """Return a row of the application with this name, see `train_row`."""
    return train_row(get_application(application), name, config, seed, timeout)


def evaluate_row_by_name(application: str, name: str, config: Config, seed: int, timeout: float) -> Row:
    """Return a row of a configuration that runs may know already. Only unknown levels are trained; seconds are NaN."""
    made = get_application(application)
    levels = range(made.problem.ladder.num_levels)
    losses = tuple(evaluate(made, config, level, seed=seed, timeout=timeout) for level in levels)
    return Row(name, config, losses, (math.nan,) * len(levels), seed)


def read(path: Path, problem: bmbo.Problem) -> list[Row]:
    """Return the rows of a table."""
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
        # A line that was cut while it was written has no seed.
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
class TableBuilder:
    """Build a table, row by row.

    Attributes:
        application: the name of the application.
        path: the path of the table.
        jobs: the number of trainings at the same time.
        seed: the seed of the trainings.
        timeout: the seconds for a row, or for all rows if they are trained together.
        note: a text for the first line, such as the hardware.
        quiet: whether the progress bar is hidden.
        make_row: makes a row, if rows are not trained together.
    """

    application: str
    path: Path
    jobs: int = 1
    seed: int = SEED
    timeout: float = TIMEOUT
    note: str = ""
    quiet: bool = False
    make_row: RowMaker = train_row_by_name

    def build(self, wanted: Mapping[str, Config]) -> int:
        """Add the wanted rows that are missing, and return how many of the wanted rows the table has now."""
        application = get_application(self.application)
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
                    # It is not written, so that the same command tries it again, perhaps with more time.
                    bar.write(f"the time was not enough for row {row.name}", file=sys.stderr)
                    return
                _write_row(file, application.problem, row)
                bar.update()

            if self.make_row is train_row_by_name and hasattr(module_of(self.application), "train_many"):
                (self._kinds_in_processes if self.jobs > 1 else self._train_together)(left, keep)
            elif self.jobs > 1:
                self._rows_in_processes(left, keep)
            else:
                for name, config in left.items():
                    keep(self.make_row(self.application, name, config, self.seed, self.timeout))
        return len({row.name for row in read(self.path, application.problem)} & set(wanted))

    def _rows_in_processes(self, left: Mapping[str, Config], keep: Keep) -> None:
        """Make each row in a process, with a share of the processors for each process."""
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

    def _kinds_in_processes(self, left: Mapping[str, Config], keep: Keep) -> None:
        """Train rows of the same kind together in one process, with several processes at the same time."""
        kinds: dict[Any, dict[str, Config]] = {}
        for name, config in left.items():
            kinds.setdefault(module_of(self.application).kind(config), {})[name] = config
        shares: list[dict[str, Config]] = [{} for _ in range(self.jobs)]
        for group in sorted(kinds.values(), key=len, reverse=True):
            min(shares, key=len).update(group)
        context = get_context("spawn")
        rows: Any = context.Queue()
        workers = [context.Process(target=self._train_into_queue, args=(share, rows)) for share in shares if share]
        for worker in workers:
            worker.start()
        # The workers are checked before the queue. So rows that a worker left there are read even if it was killed.
        going = True
        while going:
            going = any(worker.is_alive() for worker in workers)
            try:
                while True:
                    keep(rows.get(timeout=1.0))
            except queue.Empty:
                pass

    def _train_into_queue(self, left: Mapping[str, Config], rows: Any) -> None:
        """Train rows together and put them into a queue. This runs in a worker process."""
        self._train_together(left, rows.put)

    def _train_together(self, left: Mapping[str, Config], keep: Keep) -> None:
        """Train rows together, as many at once as the application chooses."""
        application, many = get_application(self.application), module_of(self.application).train_many
        names, configs = list(left), list(left.values())

        def emit(index: int, losses: Sequence[float], _: int, seconds: float) -> None:
            values = tuple(capped(application, float(loss)) for loss in losses)
            times = (math.nan,) * (len(values) - 1) + (round(seconds, 3),)
            keep(Row(names[index], configs[index], values, times, self.seed))

        pauses = StoredPauses(default_store(), [key_of(application, config, self.seed) for config in configs])
        try:
            many(configs, self.seed, Deadline.after(self.timeout), emit, pauses)
        except OutOfTimeError:
            print("the time was not enough for all rows; the same command goes on", file=sys.stderr)


def _opened(path: Path) -> TextIO:
    """Open a table for appending, without a last line that was cut."""
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
