"""Carry what an objective notes on its trial, and reports on its way, back to the record, also from another process."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bmbo.study.trial import Trial

_CARRIED = "_bmbo_noted"


@dataclass(frozen=True)
class Noted:
    """Hold what an objective returned, noted on its trial, and reported.

    Attributes:
        value: what it returned.
        user_attrs: what it noted.
        reported: what it reported, by levels.
        reached: the level at which it was told to stop, if it did.
    """

    value: object
    user_attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reported: Mapping[int, float] = field(default_factory=dict[int, float])
    reached: int | None = None

    @classmethod
    def of(cls, value: object, trial: Trial) -> "Noted":
        """Return what came of a trial that has been run."""
        return cls(value, dict(trial.user_attrs), trial.reported_levels, trial.stopped_at)


def run_noting(objective: Callable[[Trial], object], trial: Trial) -> object:
    """Return what an objective returns, together with what it noted on its trial and reported."""
    try:
        value = objective(trial)
    except BaseException as error:
        noted = Noted.of(None, trial)
        if noted.user_attrs or noted.reported:
            # Exceptions keep their attributes when they are pickled; those that cannot have any lose the notes.
            with contextlib.suppress(AttributeError, TypeError):
                setattr(error, _CARRIED, noted)
        raise
    noted = Noted.of(value, trial)
    return noted if noted.user_attrs or noted.reported else value


def noted_by(value: object, exception: BaseException | None) -> Noted:
    """Return the value of an objective and what it noted and reported, from what its run gave."""
    if isinstance(value, Noted):
        return value
    carried = getattr(exception, _CARRIED, None)
    return carried if isinstance(carried, Noted) else Noted(value)
