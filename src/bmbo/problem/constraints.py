"""Describe what a solution must keep: limits of values that are measured, and a function of the configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from bmbo.problem.number_checks import LARGEST_AMOUNT, is_real, plain_scalar, short

RELATIONS = ("<=", ">=")

_EXAMPLE = 'constraints={"memory_gb": ("<=", 16)}'


@dataclass(frozen=True)
class Constraint:
    """Limit a value that the objective measures beside its result, at every fidelity.

    Args:
        name: of the measured value.
        relation: "<=" or ">=".
        bound: the limit, which itself is allowed.
    """

    name: str
    relation: str
    bound: float

    def violation(self, measured: float) -> float:
        """Return how far a measured value lies beyond the bound; 0 or less is allowed."""
        return measured - self.bound if self.relation == "<=" else self.bound - measured

    def __str__(self) -> str:
        return f"{self.name} {self.relation} {self.bound:g}"


def checked_constraint(name: object, relation: object, bound: object) -> Constraint:
    """Return a constraint; raise TypeError or ValueError if its parts make no sense."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"a constraint is named by a text that is not empty, got {short(name)}")
    if name in ("value", "values"):
        raise ValueError(f"a constraint cannot be called {name!r}: so the result itself is called")
    if relation not in RELATIONS:
        raise ValueError(f"constraint {name!r}: the relation must be '<=' or '>=', got {short(relation)}")
    bound = plain_scalar(bound)
    if not is_real(bound) or not -LARGEST_AMOUNT <= bound <= LARGEST_AMOUNT:
        raise ValueError(f"constraint {name!r}: the bound must be a finite number, got {short(bound)}")
    return Constraint(name, str(relation), float(bound))


def as_constraints(given: object) -> tuple[Constraint, ...]:
    """Return the constraints that a user gives as a mapping from names to relations and bounds."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise TypeError(f"constraints must be a mapping such as {_EXAMPLE}, got {short(given)}")
    found: list[Constraint] = []
    for name, limit in cast(Mapping[Any, Any], given).items():
        if not isinstance(limit, tuple | list) or len(cast(list[Any], limit)) != 2:
            raise ValueError(
                f"constraint {short(name)} must be a relation and a bound, as in {_EXAMPLE}, got {short(limit)}"
            )
        relation, bound = cast(tuple[Any, Any], limit)
        found.append(checked_constraint(name, relation, bound))
    return tuple(found)


class FeasibleError(RuntimeError):
    """Report that it cannot be said whether a configuration may be run."""


@dataclass(frozen=True)
class Feasible:
    """Say which configurations may be run at all, by a function of the configuration.

    Args:
        name: of the function, for messages and the record.
        function: returns True or False for a configuration; None for a study that was loaded without it.
    """

    name: str
    function: Callable[[Mapping[str, Any]], object] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def known_as(cls, name: object) -> "Feasible":
        """Return the rule of a function of which only the name is known; raise TypeError if that is no text."""
        if not isinstance(name, str):
            raise TypeError(f"a function of configurations is named by a text, got {short(name)}")
        return cls(name)

    @classmethod
    def of(cls, function: object) -> "Feasible":
        """Return the rule of a user's function; raise TypeError if it cannot be called."""
        if not callable(function):
            raise TypeError(f"feasible must be a function of a configuration, got {short(function)}")
        named: Any = function
        return cls(str(getattr(named, "__qualname__", type(named).__name__)), named)

    def allows(self, config: Mapping[str, Any]) -> bool:
        """Return whether a configuration may be run; raise FeasibleError if the function does not say so."""
        if self.function is None:
            raise FeasibleError(
                f"this study was made with feasible={self.name}, and its record holds no code: give the function to "
                "load_study(..., feasible=...)"
            )
        try:
            answer = self.function(dict(config))
        # Exceptions of every kind, because it is the user's code.
        except Exception as error:
            raise FeasibleError(
                f"feasible={self.name} failed for {dict(config)}: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(answer, bool | np.bool_):
            raise FeasibleError(
                f"feasible={self.name} must return True or False, got {short(answer)} for {dict(config)}"
            )
        return bool(answer)
