"""Run jobs in this process, in other processes of this machine, or on Ray."""

from bmbo.executors.inline import InlineExecutor
from bmbo.executors.local_processes import LocalProcessExecutor
from bmbo.problem import Number
from bmbo.protocols import Executor

EXECUTOR_NAMES = ("auto", "inline", "process", "ray")
"""The names that `make_executor`, study files and the command line accept."""

__all__ = ["EXECUTOR_NAMES", "InlineExecutor", "LocalProcessExecutor", "make_executor"]


def make_executor(executor: str | Executor, num_workers: int, trial_timeout: Number | None = None) -> Executor:
    """Return the executor with a name, or an executor of your own as it is.

    Args:
        executor: one of `EXECUTOR_NAMES`, or an object with the methods of `Executor`. "auto" means "inline" for one
            worker without a timeout, and "process" otherwise.
        num_workers: how many jobs may run at once; not used for an executor of your own.
        trial_timeout: seconds after which a job is killed.

    Raises:
        TypeError: The executor is neither a name nor an object with the methods of `Executor`.
        ValueError: The name is unknown, or the executor cannot use the number of workers or the timeout.
        ImportError: The executor is "ray" and Ray is not installed.

    Example:
        >>> executor = make_executor("process", num_workers=4, trial_timeout=60)
    """
    if not isinstance(executor, str):
        if not isinstance(executor, Executor):
            raise TypeError(
                f"executor must be one of {list(EXECUTOR_NAMES)} or have the methods of Executor, got {executor!r}"
            )
        if trial_timeout is not None:
            raise ValueError(f"give the timeout of {trial_timeout:g} s to the executor itself, where you make it")
        return executor
    if executor == "auto":
        executor = "inline" if num_workers == 1 and trial_timeout is None else "process"
    if executor == "inline":
        if num_workers != 1:
            raise ValueError(f"executor 'inline' runs one trial at a time, got {num_workers} workers; use 'process'")
        if trial_timeout is not None:
            raise ValueError("executor 'inline' cannot end a trial that hangs; for a timeout use 'process'")
        return InlineExecutor()
    if executor == "process":
        return LocalProcessExecutor(num_workers, trial_timeout)
    if executor == "ray":
        # Imported only when it is needed, because Ray is an extra.
        from bmbo.executors.ray import RayExecutor  # noqa: PLC0415

        return RayExecutor(num_workers, trial_timeout)
    raise ValueError(f"executor must be one of {list(EXECUTOR_NAMES)} or an executor of your own, got {executor!r}")
