"""Describe several objectives: their names, their directions, and from which value on they count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from bmbo.problem.number_checks import LARGEST_AMOUNT, is_real, plain_scalar, short

DIRECTIONS = ("minimize", "maximize")
MOST_OBJECTIVES = 4

_EXAMPLE = 'directions={"loss": "minimize", "seconds": "minimize"}, or directions=["minimize", "minimize"]'


@dataclass(frozen=True)
class Objective:
    """Describe one of several objectives.

    Args:
        name: what a user calls it, or its place as text.
        maximise: whether large values are good.
        reference: the value that is just not good enough; None if it is not known.
    """

    name: str
    maximise: bool
    reference: float | None = None

    @property
    def sign(self) -> float:
        """Return the factor that makes larger values better."""
        return 1.0 if self.maximise else -1.0

    @property
    def direction(self) -> str:
        """Return the direction as users write it."""
        return "maximize" if self.maximise else "minimize"

    @property
    def label(self) -> str:
        """Return how the objective is shown: its name, or "value" and its place if it has none."""
        return f"value {self.name}" if self.name.isdecimal() else self.name


def as_objectives(directions: object, reference_point: object = None) -> tuple[Objective, ...]:
    """Return the objectives of `directions`: one if there is one direction, none if none is given.

    Args:
        directions: a list of directions, or a mapping from names to directions.
        reference_point: for each objective the value that is just not good enough; None if these are not known.

    Raises:
        TypeError: The directions are no list and no mapping.
        ValueError: A direction, a name or the reference point makes no sense.
    """
    if directions is None:
        if reference_point is not None:
            raise ValueError("reference_point belongs to several objectives: give directions too")
        return ()
    found = _named(directions)
    if len(found) == 1 and reference_point is not None:
        raise ValueError("reference_point belongs to several objectives, and directions has one")
    if reference_point is None:
        return found
    values = reference_numbers(found, reference_point)
    return tuple(replace(own, reference=value) for own, value in zip(found, values, strict=True))


def reference_numbers(objectives: Sequence[Objective], given: object) -> tuple[float, ...]:
    """Return a reference point as numbers; raise ValueError unless it has a finite one for each objective."""
    values = plain_numbers(given)
    if values is None or len(values) != len(objectives) or not all(abs(each) <= LARGEST_AMOUNT for each in values):
        raise ValueError(f"reference_point must be a list of {len(objectives)} finite numbers, got {short(given)}")
    return values


def plain_numbers(given: object) -> tuple[float, ...] | None:
    """Return a list, a tuple or an array of real numbers as plain ones; None if it is anything else."""
    if not isinstance(given, list | tuple) and not (isinstance(given, np.ndarray) and given.ndim == 1):
        return None
    values = [plain_scalar(each) for each in cast(Sequence[Any], given)]
    return tuple(float(each) for each in values) if all(is_real(each) for each in values) else None


def checked_objective(name: object, maximise: object, reference: object = None) -> Objective:
    """Return an objective as it was stored; raise TypeError if its parts make no sense."""
    if not isinstance(name, str) or not isinstance(maximise, bool) or not (reference is None or is_real(reference)):
        raise TypeError(f"no objective has {short(name)}, {short(maximise)} and {short(reference)}")
    return Objective(name, maximise, None if reference is None else float(reference))


def _named(directions: object) -> tuple[Objective, ...]:
    if isinstance(directions, Mapping):
        pairs = list(cast(Mapping[Any, Any], directions).items())
        for name, _ in pairs:
            if not isinstance(name, str) or not name.strip() or name.isdecimal():
                raise ValueError(f"an objective is named by a text that is no number, got {short(name)}")
            if name in ("value", "values"):
                raise ValueError(f"an objective cannot be called {name!r}: so all of them together are called")
    elif isinstance(directions, Sequence) and not isinstance(directions, str | bytes):
        pairs = [(str(place), each) for place, each in enumerate(cast(Sequence[Any], directions))]
    else:
        raise TypeError(f"directions must be as in {_EXAMPLE}, got {short(directions)}")
    if not 1 <= len(pairs) <= MOST_OBJECTIVES:
        raise ValueError(f"a study has one to {MOST_OBJECTIVES} objectives, got {len(pairs)} directions")
    for name, direction in pairs:
        # Optuna has directions that are no text, with these names.
        if str(getattr(direction, "name", direction)).lower() not in DIRECTIONS:
            raise ValueError(f"direction of {name!r} must be 'minimize' or 'maximize', got {short(direction)}")
    return tuple(Objective(str(name), str(getattr(each, "name", each)).lower() == "maximize") for name, each in pairs)
