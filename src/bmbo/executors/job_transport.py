"""Check jobs, send them to other processes and read their outcomes; every executor uses this file."""

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from bmbo.executors import worker_program as program
from bmbo.executors.worker_program import error_line
from bmbo.problem.number_checks import Number, is_real, whole_number
from bmbo.protocols import Finished


def check_workers_and_timeout(num_workers: int, trial_timeout: Number | None) -> None:
    """Raise ValueError if the number of workers or the timeout cannot be used."""
    whole_number("the number of workers", num_workers)
    if trial_timeout is not None and not (is_real(trial_timeout) and 0 < trial_timeout < math.inf):
        raise ValueError(f"trial_timeout must be a number of seconds above 0, or None, got {trial_timeout!r}")


def check_submission(number: int, *, closed: bool, has_place: bool) -> None:
    """Raise RuntimeError if an executor that is closed, or has no free worker, is given a job."""
    if closed:
        raise RuntimeError("the executor is closed")
    if not has_place:
        raise RuntimeError(f"all workers are busy: collect before submitting job {number}")


def pack_job(job: Callable[[], object]) -> bytes:
    """Return a job as bytes, together with functions and classes that only this process knows.

    Raises:
        TypeError: The job cannot be pickled.
    """
    try:
        return cloudpickle.dumps(job)
    except Exception as error:
        raise TypeError(
            f"the objective cannot be sent to another process ({error_line(error)}); "
            "make what it cannot carry, such as open files and locks, inside it, or use executor='inline'"
        ) from error


def unpack_outcome(number: int, message: Sequence[Any]) -> Finished:
    """Return the outcome of a job from the last message of `worker_program.run_job`."""
    kind, seconds, *rest = message
    payload = rest[-1]
    try:
        content = None if payload is None else pickle.loads(payload)  # noqa: S301 - from a process that we started
    # Exceptions of every kind are caught, because unpickling runs the code of the value's class.
    except Exception as error:
        content, unreadable = None, f"the result cannot be read here ({error_line(error)}); return a number"
    else:
        unreadable = None
    if kind == program.FAILED:
        return Finished(number, None, seconds, rest[0], content if isinstance(content, BaseException) else None)
    return Finished(number, content, seconds, unreadable)
