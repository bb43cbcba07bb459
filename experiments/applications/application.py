"""What an application is: a problem, and a training that can be stopped, continued and repeated."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import bmbo

Config = Mapping[str, Any]
"""Hyperparameters by the names of the problem's space, as the space decodes them."""


class OutOfTimeError(RuntimeError):
    """A training that passed its deadline.

    How far a machine gets in a time is no property of a configuration: this is a failure and never a value.
    """


@dataclass(frozen=True)
class Deadline:
    """A moment on the monotonic clock after which a training should stop."""

    moment: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """So many seconds from now."""
        return cls(time.monotonic() + seconds)

    def check(self) -> None:
        """Raises `OutOfTimeError` when it has passed; to be called between epochs or blocks of iterations."""
        if time.monotonic() > self.moment:
            raise OutOfTimeError("the training passed its deadline")


class States(Protocol):
    """States of one training (one configuration, one seed), a level each, in the training's own bytes."""

    def load(self, below: int) -> tuple[int, bytes] | None:
        """The highest level below this one that has a state, with it; None where there is none."""
        ...

    def save(self, level: int, state: bytes) -> None:
        """Keeps the state at the end of a level."""
        ...


class Pauses(Protocol):
    """Trainings that were under way when their time was over, by the index of their configuration."""

    def load(self, index: int) -> bytes | None:
        """What was saved; None where nothing was."""
        ...

    def save(self, index: int, state: bytes) -> None:
        """Keeps how far a training got."""
        ...

    def drop(self, index: int) -> None:
        """Lets go of one that has ended."""
        ...


class Train(Protocol):
    """A training up to a level, from the highest state below it or from the start; with the same loss either way.

    The loss is what the problem minimises or maximises, not finite where the training diverged. Deterministic in the
    configuration, the level and the seed on one kind of device.
    """

    def __call__(self, config: Config, level: int, seed: int, states: States, deadline: Deadline) -> float:
        """The loss at the end of the level."""
        ...


@dataclass(frozen=True)
class Application:
    """One of the paper's applications.

    Attributes:
        name: by which it is asked for.
        problem: what methods are told of it.
        train: the objective.
        version: changes whenever the training gives other values for the same configuration; results and states are
            kept by it.
        ceiling: the loss that a training which diverged, or ended above it, is given: a failure tells a method that a
            place is bad, and a loss of 1e30 would tell it nothing else.
        source: where it was published.
        prepare: gets its data, or raises `DataMissingError`.
    """

    name: str
    problem: bmbo.Problem
    train: Train
    version: str
    ceiling: float
    source: str
    prepare: Callable[[], object]
