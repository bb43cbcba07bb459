"""Jobs in this process, one after the other."""

import time
from collections import deque
from collections.abc import Callable

from bmbo.executors.local_processes import Number
from bmbo.executors.worker_program import describe
from bmbo.protocols import Finished


class Inline:
    """Runs a job inside `collect`, so that nothing waits in `submit`; an interrupt passes through."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[int, Callable[[], object]]] = deque()
        self._closed = False

    @property
    def num_workers(self) -> int:
        """One: this process."""
        return 1

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Keeps a job for the next `collect`."""
        if self._closed:
            raise RuntimeError("the executor is closed")
        if self._jobs:
            raise RuntimeError(f"all workers are busy: collect before submitting job {number}")
        self._jobs.append((number, job))

    def collect(self, seconds: Number) -> list[Finished]:
        """Runs the job that was submitted to its end, however long that takes; without one it waits."""
        if not self._jobs:
            time.sleep(max(seconds, 0.0))
            return []
        number, job = self._jobs.popleft()
        start = time.monotonic()
        # SystemExit too: a program's main function that is called as an objective must not end a study unrecorded.
        try:
            value = job()
        except (Exception, SystemExit) as error:
            return [Finished(number, None, time.monotonic() - start, describe(error), error)]
        return [Finished(number, value, time.monotonic() - start)]

    def close(self) -> None:
        """Forgets a job that was not run yet."""
        self._jobs.clear()
        self._closed = True
