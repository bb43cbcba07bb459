"""Run jobs in this process, one after the other."""

import time
from collections import deque
from collections.abc import Callable

from bmbo.executors.job_transport import check_submission
from bmbo.executors.worker_program import error_line, only_here
from bmbo.problem import Number
from bmbo.protocols import Finished


class InlineExecutor:
    """Run a job of this process inside `collect`, so that `submit` never waits; interrupts are not caught."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[int, Callable[[], object]]] = deque()
        self._closed = False

    @property
    def num_workers(self) -> int:
        """Return 1, because this process is the only worker."""
        return 1

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Keep a job for the next `collect`; raise RuntimeError if there is one already or the executor is closed."""
        check_submission(number, closed=self._closed, has_place=not self._jobs)
        self._jobs.append((number, job))

    def collect(self, seconds: Number) -> list[Finished]:
        """Run the submitted job to its end, even if that takes longer than `seconds`, and return its outcome.

        Without a job, wait for `seconds` and return an empty list.
        """
        if not self._jobs:
            time.sleep(max(seconds, 0.0))
            return []
        number, job = self._jobs.popleft()
        start = time.monotonic()
        # SystemExit too: an objective may call the main function of a program, and its exit is recorded as a failure.
        try:
            with only_here():
                value = job()
        except (Exception, SystemExit) as error:
            return [Finished(number, None, time.monotonic() - start, error_line(error), error)]
        return [Finished(number, value, time.monotonic() - start)]

    def close(self) -> None:
        """Drop a job that was not run yet; later calls of `submit` fail."""
        self._jobs.clear()
        self._closed = True
