"""Check the condition under which a parameter exists, as a user writes it: `when={"booster": ["tree", "dart"]}`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from bmbo.problem.number_checks import plain_scalar, short

Choice = str | int | float | bool | None
When = tuple[tuple[str, tuple[Choice, ...]], ...]
"""The parents of a parameter, by name, each with the values at which the parameter exists; all of them must hold."""

_EXAMPLE = "when={'booster': ['tree', 'dart']}"


def same_choice(one: object, other: object) -> bool:
    """Return whether two choices are equal; True and 1 are different, as in JSON."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def checked_when(kind: str, when: object) -> When:
    """Return a condition in its stored form: neither the order of parents nor that of values matters.

    Args:
        kind: of the parameter, for messages.
        when: values by the names of parents; a single value needs no list. None is no condition.
    """
    if when is None or when == ():
        return ()
    # The stored form itself is given where a parameter is copied, as by `dataclasses.replace`.
    given = dict(cast(When, when)) if isinstance(when, tuple) else when
    if not isinstance(given, Mapping):
        raise TypeError(f"{kind}: when must name parameters and their values, such as {_EXAMPLE}, got {short(when)}")
    named = cast(Mapping[object, object], given)
    if not named:
        raise ValueError(f"{kind}: when must name at least one parameter, such as {_EXAMPLE}; leave it out otherwise")
    found: dict[str, tuple[Choice, ...]] = {}
    for parent, values in named.items():
        if not isinstance(parent, str):
            raise TypeError(f"{kind}: when must name parameters, such as {_EXAMPLE}, got {short(parent)}")
        found[parent] = _values(kind, parent, values)
    return tuple(sorted(found.items()))


def when_text(when: When) -> str:
    """Return a condition in words."""
    return " and ".join(f"{parent} is {' or '.join(repr(value) for value in values)}" for parent, values in when)


def _values(kind: str, parent: str, values: object) -> tuple[Choice, ...]:
    several = isinstance(values, Iterable) and not isinstance(values, str | Mapping)
    listed = [plain_scalar(value) for value in cast(Iterable[Any], values if several else [values])]
    if not listed:
        raise ValueError(f"{kind}: when needs at least one value of {parent!r}, got none: it would never exist")
    plain: list[Choice] = []
    for value in listed:
        if value is not None and not isinstance(value, str | int | float | bool):
            raise TypeError(f"{kind}: {parent!r} must be a string, number, boolean or None, got {short(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{kind}: a value of {parent!r} must be finite, got {value!r}")
        if not any(same_choice(value, other) for other in plain):
            plain.append(value)
    return tuple(sorted(plain, key=lambda value: (type(value).__name__, repr(value))))
