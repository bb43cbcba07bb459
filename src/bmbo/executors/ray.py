"""Run jobs on Ray, on this machine or on a cluster."""

import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bmbo.executors import worker_program as program
from bmbo.executors.job_transport import check_submission, check_workers_and_timeout, pack_job, unpack_outcome
from bmbo.executors.ray_private import bound_to_loopback
from bmbo.executors.worker_program import error_line
from bmbo.problem.number_checks import Number, finite_amount
from bmbo.protocols import Finished

try:
    import ray
    from ray import exceptions
except ImportError as error:
    raise ImportError("executor 'ray' needs Ray: pip install 'bmbo[ray]'") from error

logger = logging.getLogger("bmbo")

RESOURCE_SECONDS = 300.0
"""How long a cluster may take to start a machine."""

LOOK_SECONDS = 10.0
"""Time between two looks at the machines of the cluster while jobs wait."""

LOST = (
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.LocalRayletDiedError,
    exceptions.RaySystemError,
)
"""Errors that say that a machine or Ray itself was lost, and that the job is not at fault."""


@dataclass
class _Task:
    """Hold a job that was given to Ray; `stream` returns one message when the job starts and one when it ends."""

    number: int
    stream: Any
    started: float
    deadline: float = math.inf
    is_running: bool = False


class RayExecutor:
    """Run each job as one Ray task, which Ray itself never repeats.

    If Ray is already initialised in this process, it is used and left running. Otherwise Ray is started on this
    machine, where it listens on the loopback address only, and `close` ends it. The output of jobs goes to Ray's log
    files.

    Args:
        num_workers: how many jobs may run at once.
        trial_timeout: seconds after which a job is cancelled by force; the wait for resources does not count.
        address: of a cluster, as for `ray.init`; by default the environment variable RAY_ADDRESS.
        num_cpus: CPUs for each job.
        num_gpus: GPUs for each job, fractions included; with 0 a job sees no GPU.
        resource_timeout: how long to wait for a machine with the CPUs and GPUs of a job, while the cluster has none:
            some clusters start machines when they are asked for.

    Raises:
        ValueError: An argument is out of range, or this machine has fewer GPUs than a job needs.
        RuntimeError: In `collect`: no machine of the cluster can ever run a job.

    Example:
        >>> executor = RayExecutor(8, address="auto", num_gpus=0.5)
    """

    def __init__(
        self,
        num_workers: int,
        trial_timeout: Number | None = None,
        *,
        address: str | None = None,
        num_cpus: Number = 1,
        num_gpus: Number = 0,
        resource_timeout: Number = RESOURCE_SECONDS,
    ) -> None:
        check_workers_and_timeout(num_workers, trial_timeout)
        for name, amount in (("num_cpus", num_cpus), ("num_gpus", num_gpus), ("resource_timeout", resource_timeout)):
            finite_amount(name, amount)
        self._needs = {"CPU": float(num_cpus), "GPU": float(num_gpus)}
        self._resource_timeout = resource_timeout
        self._without_machine_since: float | None = None
        self._next_look = 0.0
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
        self._run: Any = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0)(program.run_job)

    @property
    def num_workers(self) -> int:
        """Return how many jobs may run at once, if the cluster has the resources."""
        return self._num_workers

    @property
    def runs_apart(self) -> bool:
        """Return True: a job that crashes ends its own process only."""
        return True

    def submit(self, number: int, job: Callable[[], object]) -> None:
        """Give a job to Ray, which starts it when its resources are free; raise TypeError if it cannot be pickled."""
        check_submission(number, closed=self._closed, has_place=len(self._tasks) < self._num_workers)
        self._tasks.append(_Task(number, self._run.remote(pack_job(job)), time.monotonic()))

    def collect(self, seconds: Number) -> list[Finished]:
        """Return the outcomes since the last call; wait up to `seconds` for a first one, also while nothing runs."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            pause = max(min([until, *(task.deadline for task in self._tasks)]) - now, 0.0)
            # First all tasks that have a message now; if there are none, wait for the first.
            ready = _ready(self._tasks, 0.0) or _ready(self._tasks, pause)
            found = [each for each in map(self._received, ready) if each is not None]
            found += self._timed_out()
            self._look_for_machines()
            if found or time.monotonic() >= until:
                return found

    def close(self) -> None:
        """Cancel the jobs that still run, and end Ray if this executor started it."""
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
        """Return the outcome in the next message of a task, or None if the message says that the job has started."""
        try:
            message = ray.get(next(task.stream))
        except (exceptions.RayError, StopIteration) as error:
            self._tasks.remove(task)
            return Finished(task.number, None, time.monotonic() - task.started, _reason(error), lost=_is_lost(error))
        if message[0] == program.STARTED:
            task.is_running = True
            task.started = time.monotonic()
            task.deadline = task.started + (math.inf if self._timeout is None else self._timeout)
            return None
        self._tasks.remove(task)
        return unpack_outcome(task.number, message)

    def _look_for_machines(self) -> None:
        """Raise RuntimeError if jobs have waited long enough for a machine that the cluster does not have."""
        now = time.monotonic()
        if now < self._next_look or all(task.is_running for task in self._tasks):
            return
        self._next_look = now + LOOK_SECONDS
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(all(each.get(name, 0.0) >= amount for name, amount in self._needs.items()) for each in machines):
            self._without_machine_since = None
            return
        largest = {name: max((each.get(name, 0.0) for each in machines), default=0.0) for name in self._needs}
        missing = (
            f"a trial needs {_amounts(self._needs)}, and no machine of the Ray cluster has that: "
            f"there are at most {_amounts(largest)} on one"
        )
        if self._without_machine_since is None:
            self._without_machine_since = now
            logger.warning("%s; waiting %g s for such a machine", missing, self._resource_timeout)
        if now - self._without_machine_since >= self._resource_timeout:
            raise RuntimeError(f"{missing}; ask for less (num_cpus=, num_gpus=), or add a machine")

    def _timed_out(self) -> list[Finished]:
        now = time.monotonic()
        late = [task for task in self._tasks if task.deadline <= now]
        for task in late:
            ray.cancel(task.stream, force=True)
            self._tasks.remove(task)
        error = f"timed out after {self._timeout:g} s" if late else None
        return [Finished(task.number, None, now - task.started, error) for task in late]


def _amounts(resources: Mapping[str, float]) -> str:
    return f"{resources['CPU']:g} CPUs and {resources['GPU']:g} GPUs"


def _ready(tasks: Sequence[_Task], seconds: float) -> list[_Task]:
    """Return the tasks that have a message: with 0 seconds all of them, else the first after a wait."""
    if not tasks:
        time.sleep(seconds)
        return []
    streams = [task.stream for task in tasks]
    ready, _ = ray.wait(streams, num_returns=1 if seconds > 0.0 else len(streams), timeout=seconds)
    return [task for task in tasks if any(task.stream is stream for stream in ready)]


def _is_lost(error: BaseException) -> bool:
    # StopIteration: the stream ended without an outcome, because its machine was lost between two messages.
    return isinstance(error, (*LOST, StopIteration))


def _reason(error: BaseException) -> str:
    """Return in one line why Ray has no outcome."""
    if isinstance(error, exceptions.OutOfMemoryError):
        return "killed by Ray: out of memory"
    if isinstance(error, exceptions.WorkerCrashedError):
        return "the process died without a result (a crash, an exit or out of memory)"
    if isinstance(error, exceptions.TaskCancelledError):
        return "cancelled in Ray"
    # Only the first sentence, because Ray adds paragraphs of advice.
    text = error_line(error).split(". ")[0]
    return f"lost by Ray: {text}" if _is_lost(error) else text


def _init_here(num_cpus: int, num_gpus: Number) -> None:
    """Start Ray on this machine with at least as many CPUs as all jobs together ask for.

    The number may exceed the real CPUs, because the user chose how many jobs run at once.
    """
    with bound_to_loopback():
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
