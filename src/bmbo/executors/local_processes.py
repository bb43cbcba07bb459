"""Jobs in processes of this machine that can crash, leak and hang without harm to the run."""

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

import cloudpickle

from bmbo.executors import worker_program as program
from bmbo.executors.worker_program import describe
from bmbo.protocols import Finished

Number = int | float
"""Both, for checks of types at run time tell them apart."""

POLL_SECONDS = 0.2
"""Between looks at whether a process has died whose children keep its connection open; answers do not wait for it."""

GRACE_SECONDS = 0.5
"""From asking a process group to end to killing it: time to remove a temporary file."""

LOADING_SECONDS = 600.0
"""A timeout counts from a job's start; before it, a worker may import the user's modules for so long."""


@dataclass
class _Worker:
    """A worker process, leader of its own group, and the job that it has.

    Attributes:
        lifeline: the only open end of a pipe; the worker dies when it is closed, with this process at the latest.
        number: of its job; None while it is idle.
        started: when the job began to run, or was sent; monotonic.
        deadline: when the job is given up.
    """

    process: subprocess.Popen[bytes]
    connection: Any
    lifeline: int
    number: int | None = None
    started: float = 0.0
    deadline: float = math.inf

    def signal_group(self, number: int) -> bool:
        """Sends a signal to all that the worker started; whether anyone was there."""
        try:
            os.killpg(self.process.pid, number)
        # macOS says so of a group of which only zombies are left.
        except (ProcessLookupError, PermissionError):
            return False
        return True


class LocalProcesses:
    """Worker processes that are kept between jobs, so that imports are paid once, and replaced when they die.

    Args:
        num_workers: how many jobs may run at once.
        trial_timeout: seconds after which a job and all processes that it started are killed.
    """

    def __init__(self, num_workers: int, trial_timeout: Number | None = None) -> None:
        check_sizes(num_workers, trial_timeout)
        if os.name != "posix":
            raise OSError("executor 'process' needs Linux or macOS; use 'inline' or 'ray' on this system")
        self._num_workers = num_workers
        self._timeout = trial_timeout
        self._workers: list[_Worker] = []
        self._closed = False

    @property
    def num_workers(self) -> int:
        """How many jobs may run at once."""
        return self._num_workers

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Sends a job to an idle worker, or to a new one."""
        if self._closed:
            raise RuntimeError("the executor is closed")
        if len(self._busy) >= self._num_workers:
            raise RuntimeError(f"all workers are busy: collect before submitting job {number}")
        payload = packed(job)
        worker = self._idle()
        worker.number = number
        worker.started = time.monotonic()
        worker.deadline = math.inf if self._timeout is None else worker.started + LOADING_SECONDS + self._timeout
        # A worker that dies right now is noticed, with its reason, when its answer is awaited.
        with contextlib.suppress(OSError):
            worker.connection.send_bytes(payload)

    def collect(self, seconds: Number) -> list[Finished]:
        """What has finished since the last call; waits up to so many seconds, also while nothing runs."""
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
        """Kills all workers and what they started."""
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
        """The outcome in a worker's message; None where it only says that its job has started."""
        number = worker.number or 0
        try:
            message = pickle.loads(worker.connection.recv_bytes())  # noqa: S301 - from a process that we started
        except (EOFError, OSError):
            return self._crashed(worker)
        if message[0] == program.STARTED:
            worker.started = time.monotonic()
            worker.deadline = worker.started + (math.inf if self._timeout is None else self._timeout)
            return None
        worker.number = None
        return unpacked(number, message)

    def _dead(self) -> list[_Worker]:
        """Busy workers that have ended without an answer."""
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
        """Ends workers with all that they started: by request, then by force."""
        waiting = [worker for worker in workers if worker.signal_group(signal.SIGTERM)]
        until = time.monotonic() + GRACE_SECONDS
        while waiting and time.monotonic() < until:
            time.sleep(0.01)
            waiting = [each for each in waiting if each.process.poll() is None or each.signal_group(0)]
        for worker in waiting:
            worker.signal_group(signal.SIGKILL)
        for worker in workers:
            # One in the midst of a call to a dead network drive cannot be killed, and is left to the system.
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(GRACE_SECONDS)
            # Removed first: should an interrupt come here, no descriptor is closed twice.
            self._workers.remove(worker)
            worker.connection.close()
            os.close(worker.lifeline)


def check_sizes(num_workers: int, trial_timeout: Number | None) -> None:
    """Refuses what is no number of workers or no timeout."""
    if isinstance(num_workers, bool) or not isinstance(num_workers, int) or num_workers < 1:
        raise ValueError(f"the number of workers must be a whole number of at least 1, got {num_workers!r}")
    if trial_timeout is not None and not 0 < trial_timeout < math.inf:
        raise ValueError(f"trial_timeout must be a number of seconds above 0, or None, got {trial_timeout!r}")


def packed(job: Callable[[], object]) -> bytes:
    """A job as bytes; functions of a script, a notebook or another function are sent whole."""
    try:
        return cloudpickle.dumps(job)
    except Exception as error:
        raise TypeError(
            f"the objective cannot be sent to another process ({describe(error)}); "
            "make what it cannot carry, such as open files and locks, inside it, or use executor='inline'"
        ) from error


def unpacked(number: int, message: Sequence[Any]) -> Finished:
    """The outcome of a job from the last message of `worker.messages`."""
    kind, seconds, *rest = message
    payload = rest[-1]
    try:
        content = None if payload is None else pickle.loads(payload)  # noqa: S301 - from a process that we started
    # Of any kind: unpickling runs the value's own code.
    except Exception as error:
        content, unreadable = None, f"the result cannot be read here ({describe(error)}); return a number"
    else:
        unreadable = None
    if kind == program.FAILED:
        return Finished(number, None, seconds, rest[0], content if isinstance(content, BaseException) else None)
    return Finished(number, content, seconds, unreadable)


def _start() -> _Worker:
    ours, theirs = Pipe()
    watched, lifeline = os.pipe()
    # By its path: `-m` would import the package first. -P: not with its folder on the path, where there is a ray.py.
    command = [sys.executable, "-u", "-P", str(Path(program.__file__)), str(theirs.fileno()), str(watched)]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*command, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            # A group of its own is killed whole, and Ctrl-C in the terminal is left to the driver to act on.
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


def _has_message(worker: _Worker) -> bool:
    try:
        return worker.connection.poll()
    except OSError:
        return False


def _reason(code: int | None) -> str:
    """Why a process ended, from its exit code."""
    if code is None:
        return "the process closed its connection"
    if code >= 0:
        return f"the process ended with exit code {code}"
    if code == -signal.SIGKILL:
        return "killed by signal 9 (out of memory?)"
    return f"killed by signal {-code} ({signal.Signals(-code).name})"
