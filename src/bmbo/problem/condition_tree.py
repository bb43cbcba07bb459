"""Say which parameters of a space exist: at points of the cube, and in configurations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bmbo.problem.conditions import Choice, When, same_choice, when_text
from bmbo.problem.parameters import Categorical, Float, Parameter

MOST_VALUES = 1000
"""Values that a parent may have: those of more would lie too close in the cube for single precision."""

ROUNDING = 1e-5
"""Largest difference between a snapped coordinate in single precision and the value that it stands for."""

Named = Sequence[tuple[str, Parameter]]


@dataclass(frozen=True)
class Condition:
    """Hold one parent of a parameter.

    Attributes:
        parent: its place among the parameters.
        values: at which the parameter exists, as the parent decodes them.
        points: the coordinates of these values.
    """

    parent: int
    values: tuple[Choice, ...]
    points: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ConditionTree:
    """Hold the conditions of a space that has any.

    Attributes:
        names: of all parameters.
        blocks: their coordinates in the cube.
        conditions: of each parameter; none for one that always exists.
        order: the places of the parameters, parents before their children.
    """

    names: tuple[str, ...]
    blocks: tuple[slice, ...]
    conditions: tuple[tuple[Condition, ...], ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, params: Named, blocks: tuple[slice, ...]) -> "ConditionTree | None":
        """Return the conditions of parameters; None if all always exist.

        Raises:
            ValueError: A parent is unknown, cannot take a value, or has too many; parameters wait for each other; or
                the conditions of a parameter exclude each other.
        """
        # A kind of a user's own may know no conditions.
        whens: list[When] = [getattr(param, "when", ()) for _, param in params]
        if not any(whens):
            return None
        known = dict(params)
        conditions: list[tuple[Condition, ...]] = []
        for (name, _), when in zip(params, whens, strict=True):
            try:
                conditions.append(tuple(_condition(known, parent, values) for parent, values in when))
            except (TypeError, ValueError) as error:
                raise type(error)(f"parameter {name!r}: {error}") from None
        names = tuple(known)
        found = cls(names, blocks, tuple(conditions), _order(names, conditions))
        found._refuse_what_never_exists(whens)
        return found

    def exists(self, place: int, config: Mapping[str, Any]) -> bool:
        """Return whether a parameter exists beside the values of its parents; a parent that is absent has none."""
        return all(
            self.names[each.parent] in config
            and any(same_choice(config[self.names[each.parent]], value) for value in each.values)
            for each in self.conditions[place]
        )

    def existing(self, config: Mapping[str, Any]) -> frozenset[str]:
        """Return the parameters that exist beside these values, whatever else the configuration holds."""
        known: dict[str, Any] = {}
        found: set[str] = set()
        for place in self.order:
            name = self.names[place]
            if self.exists(place, known):
                found.add(name)
                if name in config:
                    known[name] = config[name]
        return frozenset(found)

    def active(self, snapped: Any) -> list[Any]:
        """Return for each parameter where it exists [...], for points [..., d] with snapped coordinates; None: always.

        Arrays are NumPy's, or JAX's inside jit.
        """
        xp = snapped.__array_namespace__()
        found: list[Any] = [None] * len(self.names)
        for place in self.order:
            for each in self.conditions[place]:
                here = snapped[..., self.blocks[each.parent]][..., None, :]
                shape = (1,) * (snapped.ndim - 1) + (len(each.points), here.shape[-1])
                apart = xp.abs(here - xp.reshape(xp.asarray(np.array(each.points), dtype=snapped.dtype), shape))
                holds = xp.any(xp.all(apart < ROUNDING, axis=-1), axis=-1)
                for other in (found[each.parent], found[place]):
                    holds = holds if other is None else holds & other
                found[place] = holds
        return found

    def at_rest(self, snapped: Any) -> Any:
        """Return snapped points with a fixed place for what does not exist: the middle of a coordinate, or the origin.

        So points that differ only in what does not exist are one point.
        """
        xp = snapped.__array_namespace__()
        blocks: list[Any] = []
        for block, exists in zip(self.blocks, self.active(snapped), strict=True):
            rest = 0.5 if block.stop - block.start == 1 else 0.0
            here = snapped[..., block]
            blocks.append(here if exists is None else xp.where(exists[..., None], here, xp.full_like(here, rest)))
        return xp.concat(blocks, axis=-1)

    def rest(self, place: int) -> tuple[float, ...]:
        """Return the coordinates of a parameter that does not exist."""
        width = self.blocks[place].stop - self.blocks[place].start
        return (0.5,) if width == 1 else (0.0,) * width

    def _refuse_what_never_exists(self, whens: Sequence[When]) -> None:
        """Raise ValueError if the conditions of a parameter and of its parents exclude each other."""
        needed: dict[int, dict[int, tuple[Choice, ...]]] = {}
        for place in self.order:
            own: dict[int, tuple[Choice, ...]] = {}
            for each in self.conditions[place]:
                for parent, values in {**needed[each.parent], each.parent: each.values}.items():
                    before = own.get(parent, values)
                    own[parent] = tuple(value for value in values if any(same_choice(value, one) for one in before))
            needed[place] = own
            empty = next((parent for parent, values in own.items() if not values), None)
            if empty is not None:
                raise ValueError(
                    f"parameter {self.names[place]!r} would never exist: it needs {when_text(whens[place])}, and its "
                    f"parents need other values of {self.names[empty]!r}"
                )


def _condition(known: Mapping[str, Parameter], parent: str, values: Sequence[Choice]) -> Condition:
    """Return the condition on one parent; raise an error if the parent does not fit."""
    if parent not in known:
        raise ValueError(f"when names {parent!r}, but the space has only {list(known)}")
    param = known[parent]
    if isinstance(param, Float) and param.step is None:
        raise ValueError(f"when names {parent!r}, a Float without a step, which never takes one value exactly")
    if not isinstance(param, Categorical) and _count(param) > MOST_VALUES:
        raise ValueError(f"when names {parent!r}, which has more than {MOST_VALUES} values; use a Categorical")
    try:
        points = tuple(param.encode(value) for value in values)
    except (TypeError, ValueError) as error:
        raise type(error)(f"when has a value that {parent!r} cannot take: {error}") from None
    return Condition(list(known).index(parent), tuple(param.decode(point) for point in points), points)


def _count(param: Any) -> float:
    """Return how many values a number takes at most; 0 for a kind that does not say it."""
    span = getattr(param, "high", 0.0) - getattr(param, "low", 0.0)
    return span / (getattr(param, "step", 1) or 1)


def _order(names: Sequence[str], conditions: Sequence[Sequence[Condition]]) -> tuple[int, ...]:
    """Return the places of parameters, parents before children; raise ValueError if some wait for each other."""
    order: list[int] = []
    waiting = list(range(len(names)))
    while waiting:
        free = [place for place in waiting if all(each.parent in order for each in conditions[place])]
        if not free:
            circle = ", ".join(repr(names[place]) for place in waiting)
            raise ValueError(f"the conditions of {circle} go round in a circle: each exists only when another does")
        order += free
        waiting = [place for place in waiting if place not in free]
    return tuple(order)
