"""One run: ask, evaluate, tell, and count the costs."""

import math
import os
import time
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.harness.contract import Job, MethodEntry, Optimiser, Start
from experiments.harness.run_record import Evaluation, rounded
from experiments.harness.settings import Settings
from experiments.harness.versions import version_of
from experiments.problems import Benchmark

Emit = Callable[[Evaluation], None]


@dataclass
class Clock:
    """Seconds spent inside a method."""

    wall: float = 0.0
    cpu: float = 0.0

    @contextmanager
    def running(self) -> Generator[None]:
        """Counts what is inside."""
        wall, cpu = time.perf_counter(), _cpu_seconds()
        try:
            yield
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += _cpu_seconds() - cpu

    def taken(self) -> tuple[float, float]:
        """What was counted since the last call; tenths of milliseconds are noise."""
        wall, cpu = round(self.wall, 4), round(self.cpu, 4)
        self.wall, self.cpu = 0.0, 0.0
        return wall, cpu


def _cpu_seconds() -> float:
    """Of this process, its threads and the children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def starting_design(benchmark: Benchmark, num_starts: int, seed: int) -> list[Start]:
    """Random points at each level with their values: a function of the problem's name and the seed alone."""
    generator = np.random.default_rng([zlib.crc32(benchmark.name.encode()), seed])
    space, found = benchmark.problem.space, list[Start]()
    for level in range(benchmark.problem.ladder.num_levels):
        for _ in range(num_starts):
            config = space.decode(tuple(float(u) for u in space.snap(generator.random(space.dim))))
            found.append((Job(config, level), benchmark.evaluate(config, level)))
    return found


def header(benchmark: Benchmark, entry: MethodEntry, settings: Settings) -> dict[str, Any]:
    """What a record says of its run before it begins."""
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
    """A run under way.

    Attributes:
        spent: the cost so far: the starts', also of a method that takes none, and what was asked for.
        held: evaluations that wait for what the method recommends after them.
    """

    benchmark: Benchmark
    entry: MethodEntry
    settings: Settings
    emit: Emit
    spent: float = 0.0
    best: tuple[float, float] = (-math.inf, math.nan)
    held: list[Evaluation] = field(default_factory=list[Evaluation])

    def play(self, seed: int) -> str:
        """Runs to the end; gives the reason where that is not the cost."""
        starts = starting_design(self.benchmark, self.settings.num_starts, seed) if self.entry.takes_starts else []
        self.spent = self.benchmark.start_cost(self.settings.num_starts)
        # A method that takes no starts is charged their cost and goes on by as much: records then show both how it
        # stands when it is charged and how it would stand otherwise.
        end = self.settings.total_cost + (0.0 if starts else self.spent)
        for job, value in starts:
            self._note(job, value, batch=0)
        clock = Clock()
        with clock.running():
            batch_size = self.settings.batch_size if self.entry.batch else 1
            optimiser = self.entry.factory(self.benchmark.problem, seed, batch_size, starts, end - self.spent)
        try:
            return self._go_on(optimiser, clock, batch_size, end)
        finally:
            self._release(None)

    def _go_on(self, optimiser: Optimiser, clock: Clock, batch_size: int, end: float) -> str:
        batch, reason = 0, ""
        # Costs are sums of floats: half a millionth of a cost is none.
        while self.spent < end - 1e-6 * min(self.benchmark.problem.ladder.costs):
            batch += 1
            with clock.running():
                jobs = list(optimiser.ask())
            wall, cpu = clock.taken()
            if self.held:
                judged = self.settings.judged or self._is_last_that_counts(jobs)
                self._release(self._recommended(optimiser) if judged else None)
            if not jobs:
                # Who keeps to the total cost may leave a rest that pays for no evaluation at the top: that is the end.
                if end - self.spent >= self.benchmark.problem.ladder.costs[-1]:
                    reason = f"it asked for nothing more at a cost of {self.spent:g}"
                break
            values = self._evaluated(jobs, batch, batch_size, wall=wall, cpu=cpu)
            with clock.running():
                optimiser.tell(jobs, values)
        if self.held:
            self._release(self._recommended(optimiser))
        return reason

    def _is_last_that_counts(self, jobs: Sequence[Job]) -> bool:
        """Whether no batch follows, or one that passes the total cost."""
        costs = self.benchmark.problem.ladder.costs
        more = sum(costs[job.level] for job in jobs if 0 <= job.level < len(costs))
        return not jobs or self.spent <= self.settings.total_cost < self.spent + more

    def _evaluated(self, jobs: list[Job], batch: int, batch_size: int, **seconds: float) -> list[float]:
        if len(jobs) > batch_size:
            raise ValueError(f"it asked for {len(jobs)} jobs at once, more than the {batch_size} of a batch")
        ladder, values = self.benchmark.problem.ladder, list[float]()
        for job in jobs:
            if not 0 <= job.level <= ladder.top:
                raise ValueError(f"it asked for level {job.level}; there are 0 to {ladder.top}")
            # Refuses what is outside the space.
            self.benchmark.problem.space.encode(job.config)
            value = self.benchmark.evaluate(job.config, job.level)
            values.append(value)
            self.spent += ladder.costs[job.level]
            self._note(job, value, batch=batch, **seconds)
        return values

    def _note(self, job: Job, value: float, *, batch: int, wall: float = 0.0, cpu: float = 0.0) -> None:
        at_top = job.level == self.benchmark.problem.ladder.top
        top = value if at_top else self._judged(job)
        self.best = max(self.best, (self.benchmark.problem.sign * value, value)) if at_top else self.best
        self.held.append(Evaluation(batch, job.level, rounded(value), rounded(top), wall, cpu))

    def _judged(self, job: Job) -> float | None:
        """The value at the top of what was queried below it."""
        return self.benchmark.evaluate(job.config, self.benchmark.problem.ladder.top) if self.settings.judged else None

    def _recommended(self, optimiser: Optimiser) -> float | None:
        """The true value at the top of what is recommended now."""
        config: Mapping[str, Any] | None = optimiser.recommend()
        if config is not None:
            return self.benchmark.evaluate(config, self.benchmark.problem.ladder.top)
        return None if math.isnan(self.best[1]) else self.best[1]

    def _release(self, recommended: float | None) -> None:
        """Hands on the evaluations of the last batch."""
        held, self.held = self.held, []
        for place, evaluation in enumerate(held):
            last = place == len(held) - 1
            self.emit(replace(evaluation, recommended=rounded(recommended)) if last else evaluation)
