"""Execute one run of one method on one problem: ask, evaluate, tell, and count the costs."""

import math
import os
import time
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.harness.method_interface import Job, MethodEntry, Optimiser, Start
from experiments.harness.package_versions import version_of
from experiments.harness.run_record import Evaluation, rounded
from experiments.harness.run_settings import Settings
from experiments.problems import Benchmark

Emit = Callable[[Evaluation], None]


@dataclass
class Clock:
    """Count the seconds that are spent inside a method."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def running(self) -> Generator[None]:
        """Count the time of the block."""
        wall, cpu = time.perf_counter(), _cpu_seconds()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += _cpu_seconds() - cpu

    def taken(self) -> tuple[float, float]:
        """Return the wall and CPU seconds since the last call, rounded to tenths of milliseconds."""
        wall, cpu = round(self.wall, 4), round(self.cpu, 4)
        self.wall, self.cpu = 0.0, 0.0
        return wall, cpu


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process, its threads and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def starting_design(benchmark: Benchmark, num_starts: int, seed: int) -> list[Start]:
    """Return random points at each level with their values. They depend on the problem's name and the seed only."""
    generator = np.random.default_rng([zlib.crc32(benchmark.name.encode()), seed])
    space, found = benchmark.problem.space, list[Start]()
    for level in range(benchmark.problem.ladder.num_levels):
        for _ in range(num_starts):
            config = space.decode(tuple(float(u) for u in space.snap(generator.random(space.dim))))
            found.append((Job(config, level), benchmark.evaluate(config, level)))
    return found


def header(benchmark: Benchmark, entry: MethodEntry, settings: Settings) -> dict[str, Any]:
    """Return the header of a record: what is known before the run begins."""
    return {
        "settings": settings.to_json(),
        "costs": list(benchmark.problem.ladder.costs),
        "maximise": benchmark.problem.maximise,
        "optimum": benchmark.optimum,
        "takes_starts": entry.takes_starts,
        "start_cost": benchmark.start_cost(settings.num_starts),
        "versions": {package: version_of(package) or "unknown" for package in entry.packages},
    }


@dataclass
class Run:
    """Execute a run and emit its evaluations.

    Attributes:
        benchmark: the problem.
        entry: the method.
        settings: the rules of the run.
        emit: receives each evaluation.
        spent: the cost so far: that of the evaluations, and that of the starts, even if the method takes none.
        best: the best value at the top, with its sign turned so that larger is better, and what it is without noise.
        held: the evaluations of the last batch. They wait for the recommendation that follows them.
    """

    benchmark: Benchmark
    entry: MethodEntry
    settings: Settings
    emit: Emit
    spent: float = 0.0
    best: tuple[float, float] = (-math.inf, math.nan)
    held: list[Evaluation] = field(default_factory=list[Evaluation])

    def execute(self, seed: int) -> str:
        """Run to the end and return the reason for the end, or an empty text if the cost was reached."""
        starts = starting_design(self.benchmark, self.settings.num_starts, seed) if self.entry.takes_starts else []
        self.spent = self.benchmark.start_cost(self.settings.num_starts)
        # A method that takes no starts is charged their cost, and may spend the same cost again at the end. So a report
        # can show it with and without the charge.
        end = self.settings.total_cost + (0.0 if starts else self.spent)
        for job, value in starts:
            self._note(job, value, batch=0)
        clock = Clock()
        with clock.running():
            batch_size = self.settings.batch_size if self.entry.batch else 1
            optimiser = self.entry.factory(self.benchmark.problem, seed, batch_size, starts, end - self.spent)
        try:
            return self._until_end(optimiser, clock, batch_size, end)
        finally:
            self._release(None)

    def _until_end(self, optimiser: Optimiser, clock: Clock, batch_size: int, end: float) -> str:
        batch, reason = 0, ""
        while self._has_room(end):
            batch += 1
            with clock.running():
                jobs = list(optimiser.ask())
            wall, cpu = clock.taken()
            if self.held:
                judged = self.settings.judged or self._is_last_that_counts(jobs)
                self._release(self._recommended(optimiser) if judged else None)
            if not jobs:
                reason = self._reason_to_stop(end)
                break
            values = self._evaluated(jobs, batch, batch_size, wall=wall, cpu=cpu)
            with clock.running():
                optimiser.tell(jobs, values)
        if self.held:
            self._release(self._recommended(optimiser))
        return reason

    def _has_room(self, end: float) -> bool:
        """Return whether there is cost left. Costs are sums of floats: a millionth of the smallest is rounding."""
        return self.spent < end - 1e-6 * min(self.benchmark.problem.ladder.costs)

    def _reason_to_stop(self, end: float) -> str:
        """Return why a method that asked for nothing stopped; nothing if the rest pays for no evaluation at the top."""
        if end - self.spent < self.benchmark.problem.ladder.costs[-1]:
            return ""
        return f"it asked for nothing more at a cost of {self.spent:g}"

    def _is_last_that_counts(self, jobs: Sequence[Job]) -> bool:
        """Return whether the batch before these jobs is the last one within the total cost."""
        costs = self.benchmark.problem.ladder.costs
        more = sum(costs[job.level] for job in jobs if 0 <= job.level < len(costs))
        return not jobs or self.spent <= self.settings.total_cost < self.spent + more

    def _evaluated(self, jobs: list[Job], batch: int, batch_size: int, **seconds: float) -> list[float]:
        self._check_number(jobs, batch_size)
        values = list[float]()
        for job in jobs:
            values.append(self._value(job))
            self._note(job, values[-1], batch=batch, **seconds)
        return values

    def _check_number(self, jobs: Sequence[Job], room: int) -> None:
        if len(jobs) > room:
            raise ValueError(f"it asked for {len(jobs)} jobs at once, more than the {room} of a batch")

    def _value(self, job: Job) -> float:
        """Return the value of a job and count its cost. Raise `ValueError` if there is no such query."""
        ladder = self.benchmark.problem.ladder
        if not 0 <= job.level <= ladder.top:
            raise ValueError(f"it asked for level {job.level}; there are 0 to {ladder.top}")
        # Raises an error if the configuration is outside the space.
        self.benchmark.problem.space.encode(job.config)
        self.spent += ladder.costs[job.level]
        return self.benchmark.evaluate(job.config, job.level)

    def _note(
        self,
        job: Job,
        value: float,
        *,
        batch: int,
        wall: float = 0.0,
        cpu: float = 0.0,
        ended: float | None = None,
    ) -> None:
        at_top = job.level == self.benchmark.problem.ladder.top
        if at_top:
            # What counts is the value without noise, of the point that looks best with noise.
            top = value if self.benchmark.exact is None else self.benchmark.exact(job.config)
            self.best = max(self.best, (self.benchmark.problem.sign * value, top))
        else:
            top = self._judged(job)
        self.held.append(Evaluation(batch, job.level, rounded(value), rounded(top), wall, cpu, ended=ended))

    def _judged(self, job: Job) -> float | None:
        """Return the value of a job's configuration at the top, or None if the settings do not ask for it."""
        return self.benchmark.exact_top(job.config) if self.settings.judged else None

    def _recommended(self, optimiser: Optimiser) -> float | None:
        """Return the true value at the top of the current recommendation."""
        config: Mapping[str, Any] | None = optimiser.recommend()
        if config is not None:
            return self.benchmark.exact_top(config)
        return None if math.isnan(self.best[1]) else self.best[1]

    def _release(self, recommended: float | None) -> None:
        """Emit the evaluations of the last batch, the last one with the value of the recommendation."""
        held, self.held = self.held, []
        for place, evaluation in enumerate(held):
            last = place == len(held) - 1
            self.emit(replace(evaluation, recommended=rounded(recommended)) if last else evaluation)
