"""Run jobs in processes of this machine; a job that crashes, hangs or leaks memory does not harm the run."""

import contextlib
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe, connection
from pathlib import Path
from typing import Any

import psutil

from bmbo.executors import worker_program as program
from bmbo.executors.job_transport import check_submission, check_workers_and_timeout, pack_job, unpack_outcome
from bmbo.problem import Number
from bmbo.protocols import Finished

POLL_SECONDS = 0.2
"""Time between checks for dead processes whose children keep the connection open; answers arrive without this delay."""

GRACE_SECONDS = 0.5
"""Time between asking a process group to end and killing it: enough to remove a temporary file."""

LOADING_SECONDS = 600.0
"""How long a worker may import the user's modules before a job starts; the timeout of the job counts from its start."""


@dataclass
class _Worker:
    """Hold a worker process, which leads a process group of its own, and its job.

    Attributes:
        process: the worker itself.
        connection: for jobs and messages.
        lifeline: our end of a pipe; the worker dies when it is closed, at the latest when this process ends.
        number: the number of its job; None while it is idle.
        ticket: what the messages of its job carry; no other job of this worker has the same.
        started: when the job began to run, or was sent, by the monotonic clock.
        deadline: when the job is killed.
    """

    process: subprocess.Popen[bytes]
    connection: Any
    lifeline: int
    number: int | None = None
    ticket: int = 0
    started: float = 0.0
    deadline: float = math.inf

    def signal_group(self, number: int) -> bool:
        """Send a signal to the worker and all processes that it started; return whether any of them existed."""
        try:
            os.killpg(self.process.pid, number)
        # macOS raises PermissionError for a group in which only zombies are left.
        except (ProcessLookupError, PermissionError):
            return False
        return True


class LocalProcessExecutor:
    """Run jobs in worker processes of this machine.

    Workers stay alive between jobs, so that each imports modules only once. A worker that dies is replaced.

    Args:
        num_workers: how many jobs may run at once.
        trial_timeout: seconds after which a job and all processes that it started are killed.

    Raises:
        ValueError: The number of workers or the timeout cannot be used.
        OSError: The system is neither Linux nor macOS.

    Example:
        >>> executor = LocalProcessExecutor(num_workers=4, trial_timeout=60)
    """

    def __init__(self, num_workers: int, trial_timeout: Number | None = None) -> None:
        check_workers_and_timeout(num_workers, trial_timeout)
        if os.name != "posix":
            raise OSError("executor 'process' needs Linux or macOS; use 'inline' or 'ray' on this system")
        self._num_workers = num_workers
        self._timeout = trial_timeout
        self._workers: list[_Worker] = []
        self._closed = False

    @property
    def num_workers(self) -> int:
        """Return how many jobs may run at once."""
        return self._num_workers

    @property
    def runs_apart(self) -> bool:
        """Return True: a job that crashes ends its own process only."""
        return True

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Send a job to an idle worker or to a new one; raise TypeError if the job cannot be pickled."""
        check_submission(number, closed=self._closed, has_place=len(self._busy) < self._num_workers)
        payload = pack_job(job)
        worker = self._idle()
        worker.number = number
        worker.ticket += 1
        worker.started = time.monotonic()
        worker.deadline = math.inf if self._timeout is None else worker.started + LOADING_SECONDS + self._timeout
        # If the worker dies right now, `collect` notices it and reports the reason.
        with contextlib.suppress(OSError):
            worker.connection.send_bytes(pickle.dumps((worker.ticket, payload)))

    def collect(self, seconds: Number) -> list[Finished]:
        """Return the outcomes since the last call; wait up to `seconds` for a first one, also while nothing runs."""
        until = time.monotonic() + seconds
        while True:
            left = max(until - time.monotonic(), 0.0)
            busy = self._busy
            pause = min([left, POLL_SECONDS, *(max(each.deadline - time.monotonic(), 0.0) for each in busy)])
            if busy:
                ready = connection.wait([each.connection for each in busy], pause)
            else:
                ready = []
                time.sleep(pause)
            finished = [self._received(each) for each in busy if each.connection in ready]
            finished += [self._crashed(each) for each in self._dead()]
            finished += self._timed_out()
            found = [each for each in finished if each is not None]
            if found or time.monotonic() >= until:
                return found

    def close(self) -> None:
        """Kill all workers and the processes that they started."""
        self._closed = True
        self._end(list(self._workers))

    @property
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.number is not None]

    def _idle(self) -> _Worker:
        for worker in [each for each in self._workers if each.number is None]:
            if worker.process.poll() is None:
                return worker
            self._end([worker])
        worker = _start()
        self._workers.append(worker)
        return worker

    def _received(self, worker: _Worker) -> Finished | None:
        """Return the outcome in a message of a worker, or None if its job has just started, or is another one."""
        number = worker.number or 0
        try:
            ticket, message = pickle.loads(worker.connection.recv_bytes())  # noqa: S301 - from our own process
        except (EOFError, OSError):
            return self._crashed(worker)
        if ticket != worker.ticket:
            return None
        if message[0] == program.STARTED:
            worker.started = time.monotonic()
            worker.deadline = worker.started + (math.inf if self._timeout is None else self._timeout)
            return None
        worker.number = None
        return unpack_outcome(number, message)

    def _dead(self) -> list[_Worker]:
        """Return the busy workers that have ended without an answer."""
        return [each for each in self._busy if each.process.poll() is not None and not _has_message(each)]

    def _crashed(self, worker: _Worker) -> Finished:
        number, seconds = worker.number or 0, time.monotonic() - worker.started
        try:
            code = worker.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        self._end([worker])
        return Finished(number, None, seconds, _reason(code))

    def _timed_out(self) -> list[Finished]:
        now = time.monotonic()
        late = [each for each in self._busy if each.deadline <= now and not _has_message(each)]
        self._end(late)
        error = f"timed out after {self._timeout:g} s" if late else None
        return [Finished(each.number or 0, None, now - each.started, error) for each in late]

    def _end(self, workers: Sequence[_Worker]) -> None:
        """End workers and all processes that they started: first by request, then by force.

        Processes that left the group of their worker, as daemons do, are killed too, as far as they can be found.
        """
        # Before a worker ends: after that, nothing tells whose they were.
        elsewhere = [process for worker in workers for process in _descendants(worker)]
        waiting = [worker for worker in workers if worker.signal_group(signal.SIGTERM)]
        until = time.monotonic() + GRACE_SECONDS
        while waiting and time.monotonic() < until:
            time.sleep(0.01)
            waiting = [each for each in waiting if each.process.poll() is None or each.signal_group(0)]
        for worker in waiting:
            # What was begun since by a worker that is still there.
            elsewhere += _descendants(worker)
            worker.signal_group(signal.SIGKILL)
        for process in elsewhere:
            # A process is known by its id and its start, so no other with the same id is killed.
            with contextlib.suppress(psutil.Error):
                process.kill()
        for worker in workers:
            # A process that waits for a dead network drive cannot be killed; it is left to the system.
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(GRACE_SECONDS)
            # Removed first, so that no descriptor is closed twice if an interrupt arrives here.
            self._workers.remove(worker)
            worker.connection.close()
            os.close(worker.lifeline)


def _start() -> _Worker:
    ours, theirs = Pipe()
    watched, lifeline = os.pipe()
    # Started by its path, because `-m` would import the package first. -P keeps its folder off the import path, because
    # the file ray.py in it would hide the package ray.
    command = [sys.executable, "-u", "-P", str(Path(program.__file__)), str(theirs.fileno()), str(watched)]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*command, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            # A process group of its own can be killed as a whole, and Ctrl-C in the terminal reaches only the driver.
            start_new_session=True,
            pass_fds=(theirs.fileno(), watched),
        )
    except OSError:
        ours.close()
        os.close(lifeline)
        raise
    finally:
        theirs.close()
        os.close(watched)
    with contextlib.suppress(OSError):
        ours.send_bytes(pickle.dumps(([str(place) for place in sys.path], sys.argv)))
    return _Worker(process, ours, lifeline)


def _descendants(worker: _Worker) -> list[psutil.Process]:
    """Return all processes that a worker has started, and those which they have started; none if it has ended."""
    if worker.process.poll() is not None:
        # Its id may belong to another process by now.
        return []
    try:
        return psutil.Process(worker.process.pid).children(recursive=True)
    except psutil.Error:
        return []


def _has_message(worker: _Worker) -> bool:
    try:
        return worker.connection.poll()
    except OSError:
        return False


def _reason(code: int | None) -> str:
    """Return in words why a process ended, from its exit code."""
    if code is None:
        return "the process closed its connection"
    if code >= 0:
        return f"the process ended with exit code {code}"
    if code == -signal.SIGKILL:
        return "killed by signal 9 (out of memory?)"
    return f"killed by signal {-code} ({signal.Signals(-code).name})"
