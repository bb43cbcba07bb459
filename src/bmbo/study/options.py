"""Hold how a study is run."""

from dataclasses import dataclass

from bmbo.problem import Number
from bmbo.problem.number_checks import positive_number, whole_number
from bmbo.study.limits import Limits

GRACE_SECONDS = 120.0
"""Silence after which a planner or a worker counts as dead. It is longer than any pause of a healthy machine."""


@dataclass(frozen=True)
class Options:
    """Hold how a study is run.

    Attributes:
        limits: when it ends.
        batch_size: trials planned together; in an asynchronous run, trials kept in flight, at least one per worker.
        asynchronous: plan as soon as a worker is free, not when a batch is over.
        catch: exceptions that fail their trial and do not end the run.
        grace: seconds of silence after which other processes count as dead.
    """

    limits: Limits
    batch_size: int = 1
    asynchronous: bool = False
    catch: tuple[type[BaseException], ...] = ()
    grace: Number = GRACE_SECONDS

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)
        positive_number("grace", self.grace)
