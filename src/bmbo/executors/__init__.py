"""Engines that run jobs: in this process, in processes of this machine, or on Ray."""

from bmbo.executors.inline import Inline
from bmbo.executors.local_processes import LocalProcesses, Number
from bmbo.protocols import Executor

NAMES = ("auto", "inline", "process", "ray")

__all__ = ["Inline", "LocalProcesses", "make_executor"]


def make_executor(executor: str | Executor, num_workers: int, trial_timeout: Number | None = None) -> Executor:
    """The engine of a name; an engine of your own is given back as it is, with its own number of workers.

    "auto" is this process for one worker without a timeout, else processes of this machine.
    """
    if not isinstance(executor, str):
        if not isinstance(executor, Executor):
            raise TypeError(f"executor must be one of {list(NAMES)} or have the methods of Executor, got {executor!r}")
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
        return Inline()
    if executor == "process":
        return LocalProcesses(num_workers, trial_timeout)
    if executor == "ray":
        # Imported here: Ray is an extra.
        from bmbo.executors.ray import RayExecutor  # noqa: PLC0415

        return RayExecutor(num_workers, trial_timeout)
    raise ValueError(f"executor must be one of {list(NAMES)} or an executor of your own, got {executor!r}")
