"""Execute a run with several workers in simulated time: each gets a new job as soon as it is free.

A job takes as long as it costs. The time that a method takes to suggest is not added.
"""

import heapq
from dataclasses import dataclass

from experiments.harness.method_interface import Asynchronous, Optimiser
from experiments.harness.single_run import Clock, Run

SAME_TIME = 1e-9
"""Jobs that end within this share of the time end together: times are sums of floats."""


@dataclass
class AsynchronousRun(Run):
    """Execute a run in which no worker waits for another. Evaluations are recorded in the order of their starts."""

    def _until_end(self, optimiser: Optimiser, clock: Clock, batch_size: int, end: float) -> str:
        if not isinstance(optimiser, Asynchronous):
            raise ValueError(f"{self.entry.name} cannot start jobs while others run; use the schedule sync")
        costs = self.benchmark.problem.ladder.costs
        now, batch, reason = 0.0, 0, ""
        running: list[tuple[float, int, float]] = []
        while True:
            free = batch_size - len(running)
            if self._has_room(end):
                with clock.running():
                    jobs = dict(optimiser.start(free))
                self._check_number(list(jobs.values()), free)
                wall, cpu = clock.taken()
                batch += bool(jobs)
                self._release(None)
                for number, job in jobs.items():
                    value, ended = self._value(job), now + costs[job.level]
                    heapq.heappush(running, (ended, number, value))
                    self._note(job, value, batch=batch, wall=wall, cpu=cpu, ended=ended)
                if not running:
                    reason = self._reason_to_stop(end)
            if not running:
                break
            now = running[0][0]
            while running and running[0][0] <= now * (1 + SAME_TIME):
                _, number, value = heapq.heappop(running)
                with clock.running():
                    optimiser.finish(number, value)
        if self.held:
            self._release(self._recommended(optimiser))
        return reason
