"""Describe an application: a problem, and a training that can be stopped, continued and repeated."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import bmbo

Config = Mapping[str, Any]
"""Hyperparameters by their names, as the problem's space decodes them."""


class OutOfTimeError(RuntimeError):
    """Say that a training passed its deadline.

    This is a failure and not a value, because it depends on the machine and not on the configuration alone.
    """


@dataclass(frozen=True)
class Deadline:
    """Hold the moment on the monotonic clock at which a training must stop."""

    moment: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """Return the deadline a number of seconds from now."""
        return cls(time.monotonic() + seconds)

    def check(self) -> None:
        """Raise `OutOfTimeError` if the deadline has passed. Call this between epochs or blocks of iterations."""
        if time.monotonic() > self.moment:
            raise OutOfTimeError("the training passed its deadline")


class States(Protocol):
    """Keep the states of one training (one configuration, one seed), one for each level, as bytes."""

    def load(self, below: int) -> tuple[int, bytes] | None:
        """Return the highest level below the given one that has a state, and the state; None if there is none."""
        ...

    def save(self, level: int, state: bytes) -> None:
        """Keep the state at the end of a level."""
        ...


class Pauses(Protocol):
    """Keep trainings that ran out of time before their end, by the index of their configuration."""

    def load(self, index: int) -> bytes | None:
        """Return the saved state, or None if there is none."""
        ...

    def save(self, index: int, state: bytes) -> None:
        """Keep the state of an unfinished training."""
        ...

    def drop(self, index: int) -> None:
        """Remove the state of a finished training."""
        ...


class Train(Protocol):
    """Train up to a level, from the highest state below it or from the start. Both give the same loss.

    The loss is the value that the problem minimises or maximises. It is not finite if the training diverged. On one
    kind of device it depends on the configuration, the level and the seed only.
    """

    def __call__(self, config: Config, level: int, seed: int, states: States, deadline: Deadline) -> float:
        """Return the loss at the end of the level."""
        ...


@dataclass(frozen=True)
class Application:
    """Hold one of the paper's applications.

    Attributes:
        name: the name on the command line.
        problem: what methods are told: the space, the levels and the direction.
        train: the objective.
        version: changes whenever the training gives other values for the same configuration. Stored values and states
            belong to one version.
        ceiling: the loss of a training that diverged or ended above it. The ceiling shows a method that a
            configuration is bad. A loss of 1e30 would show no more and would disturb models.
        source: the publication.
        prepare: loads the data, or raises `DataMissingError`.
    """

    name: str
    problem: bmbo.Problem
    train: Train
    version: str
    ceiling: float
    source: str
    prepare: Callable[[], object]
