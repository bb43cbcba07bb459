"""Jobs on Ray: on this machine, or on a cluster by its address."""

import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bmbo.executors import worker_program as program
from bmbo.executors.local_processes import Number, check_sizes, packed, unpacked
from bmbo.executors.worker_program import describe
from bmbo.protocols import Finished

try:
    import ray
    from ray import exceptions
except ImportError as error:
    raise ImportError("executor 'ray' needs Ray: pip install 'bmbo[ray]'") from error

LOST = (
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.LocalRayletDiedError,
    exceptions.RaySystemError,
)
"""What says that a place was lost, and nothing of the job."""

CLEANUP = "RAY_process_group_cleanup_enabled"


@dataclass
class _Task:
    """A job on its way: `stream` gives one message when it starts and one when it ends."""

    number: int
    stream: Any
    started: float
    deadline: float = math.inf


class RayExecutor:
    """One Ray task a job, never retried by Ray itself.

    A Ray that runs in this process already is used and left alone; else one is started on this machine, bound to its
    loopback address, and ended by `close`. What jobs print goes to Ray's own log files.

    Args:
        num_workers: how many jobs may run at once.
        trial_timeout: seconds after which a job is cancelled by force; waiting for resources does not count.
        address: of a cluster, as for `ray.init`; also taken from the variable RAY_ADDRESS.
        num_cpus: CPUs for each job.
        num_gpus: GPUs for each job, also in parts; with 0 a job sees none.
    """

    def __init__(
        self,
        num_workers: int,
        trial_timeout: Number | None = None,
        *,
        address: str | None = None,
        num_cpus: Number = 1,
        num_gpus: Number = 0,
    ) -> None:
        check_sizes(num_workers, trial_timeout)
        for name, amount in (("num_cpus", num_cpus), ("num_gpus", num_gpus)):
            if not 0 <= amount < math.inf:
                raise ValueError(f"{name} must be a number of at least 0, got {amount!r}")
        self._num_workers = num_workers
        self._timeout = trial_timeout
        self._tasks: list[_Task] = []
        self._closed = False
        self._owned = not ray.is_initialized()
        address = address or os.environ.get("RAY_ADDRESS")
        if self._owned and address is not None:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        elif self._owned:
            _init_here(math.ceil(max(num_workers * num_cpus, os.cpu_count() or 1)), num_gpus)
        self._run: Any = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0)(program.messages)

    @property
    def num_workers(self) -> int:
        """How many jobs may run at once, if the cluster has the resources."""
        return self._num_workers

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Gives a job to Ray, which starts it when its resources are free."""
        if self._closed:
            raise RuntimeError("the executor is closed")
        if len(self._tasks) >= self._num_workers:
            raise RuntimeError(f"all workers are busy: collect before submitting job {number}")
        self._tasks.append(_Task(number, self._run.remote(packed(job)), time.monotonic()))

    def collect(self, seconds: Number) -> list[Finished]:
        """What has finished since the last call; waits up to so many seconds, also while nothing runs."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            pause = max(min([until, *(task.deadline for task in self._tasks)]) - now, 0.0)
            # Those that are ready now, whose number is not known, or else the first.
            ready = _ready(self._tasks, 0.0) or _ready(self._tasks, pause)
            found = [each for each in map(self._received, ready) if each is not None]
            found += self._timed_out()
            if found or time.monotonic() >= until:
                return found

    def close(self) -> None:
        """Cancels what still runs, and ends Ray if it was started here."""
        if self._closed:
            return
        self._closed = True
        if not ray.is_initialized():
            return
        for task in self._tasks:
            ray.cancel(task.stream, force=True)
        self._tasks.clear()
        if self._owned:
            ray.shutdown()

    def _received(self, task: _Task) -> Finished | None:
        """The outcome in a task's next message; None where it only says that its job has started."""
        try:
            message = ray.get(next(task.stream))
        except (exceptions.RayError, StopIteration) as error:
            self._tasks.remove(task)
            return Finished(task.number, None, time.monotonic() - task.started, _reason(error), lost=_is_lost(error))
        if message[0] == program.STARTED:
            task.started = time.monotonic()
            task.deadline = task.started + (math.inf if self._timeout is None else self._timeout)
            return None
        self._tasks.remove(task)
        return unpacked(task.number, message)

    def _timed_out(self) -> list[Finished]:
        now = time.monotonic()
        late = [task for task in self._tasks if task.deadline <= now]
        for task in late:
            ray.cancel(task.stream, force=True)
            self._tasks.remove(task)
        error = f"timed out after {self._timeout:g} s" if late else None
        return [Finished(task.number, None, now - task.started, error) for task in late]


def _ready(tasks: Sequence[_Task], seconds: float) -> list[_Task]:
    """Tasks with a message: all of them, or after a wait the first."""
    if not tasks:
        time.sleep(seconds)
        return []
    streams = [task.stream for task in tasks]
    ready, _ = ray.wait(streams, num_returns=1 if seconds > 0.0 else len(streams), timeout=seconds)
    return [task for task in tasks if any(task.stream is stream for stream in ready)]


def _is_lost(error: BaseException) -> bool:
    # A stream that ends without an outcome: its place went away between two messages.
    return isinstance(error, (*LOST, StopIteration))


def _reason(error: BaseException) -> str:
    """Why Ray has no outcome, in one line."""
    if isinstance(error, exceptions.OutOfMemoryError):
        return "killed by Ray: out of memory"
    if isinstance(error, exceptions.WorkerCrashedError):
        return "the process died without a result (a crash, an exit or out of memory)"
    if isinstance(error, exceptions.TaskCancelledError):
        return "cancelled in Ray"
    # Its first sentence: Ray adds advice by the paragraph.
    text = describe(error).split(". ")[0]
    return f"lost by Ray: {text}" if _is_lost(error) else text


def _init_here(num_cpus: int, num_gpus: Number) -> None:
    """Starts Ray on this machine, with as many CPUs as the jobs together ask for: the user chose that number."""
    with _bound_to_loopback():
        ray.init(
            address="local",
            num_cpus=num_cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    place = ray.util.get_node_ip_address()
    if not place.startswith("127."):
        warnings.warn(f"this version of Ray listens on {place}, not only on the loopback address", stacklevel=2)
    available = ray.cluster_resources().get("GPU", 0)
    if available < num_gpus:
        ray.shutdown()
        raise ValueError(f"each job asks for {num_gpus:g} GPUs, but this machine has {available:g}")


@contextmanager
def _bound_to_loopback() -> Generator[None]:
    """While Ray starts: no address but this machine's own, and what a killed job has started is killed with it."""
    from ray._private import ray_constants  # noqa: PLC0415 - private: see below

    # Ray replaces 127.0.0.1 by a reachable address unless clusters are off, as they are on macOS; it reads the variable
    # for that, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER, only when it is imported, which a user may have done.
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    cleanup = os.environ.get(CLEANUP)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[CLEANUP] = cleanup or "1"
    try:
        with warnings.catch_warnings():
            # JAX warns of every fork; Ray's are followed by an exec at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        if cleanup is None:
            del os.environ[CLEANUP]
