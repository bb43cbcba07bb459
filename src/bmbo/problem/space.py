"""Describe what is searched: named parameters in a fixed order, mapped to the unit cube."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar, cast

from bmbo.problem.condition_tree import ConditionTree
from bmbo.problem.conditions import When, when_text
from bmbo.problem.html_table import html_table
from bmbo.problem.likely import Likely, prior_text
from bmbo.problem.likely_points import LikelyPoints
from bmbo.problem.parameters import Categorical, Float, Int, Parameter

ArrayT = TypeVar("ArrayT")

_KINDS: dict[str, type[Float] | type[Int] | type[Categorical]] = {
    "float": Float,
    "int": Int,
    "categorical": Categorical,
}


@dataclass(frozen=True)
class Space:
    """Hold named parameters in a fixed order, and map configurations to the unit cube and back.

    Parameters may exist only where others have certain values. A configuration holds those that exist, and the cube has
    a fixed place for the others.

    Example:
        >>> space = Space({"rate": Float(1e-5, 1e-1, log=True), "solver": Categorical(["sgd", "adam"])})
    """

    params: tuple[tuple[str, Parameter], ...]

    def __init__(self, params: Mapping[str, Parameter]) -> None:
        if not isinstance(cast(object, params), Mapping):
            raise TypeError(f"Space: parameters must be given as a mapping from names, got {params!r}")
        pairs: list[tuple[object, object]] = list(cast(Mapping[object, object], params).items())
        if not pairs:
            raise ValueError("Space: at least one parameter is needed, got none")
        for name, param in pairs:
            if not isinstance(name, str):
                raise TypeError(f"Space: a parameter's name must be a string, got {name!r}")
            if not name:
                raise ValueError(f"Space: a parameter's name must not be empty, got {name!r} for {param!r}")
            if not isinstance(param, Parameter):
                raise TypeError(f"Space: parameter {name!r} must be a Float, Int or Categorical, got {param!r}")
        object.__setattr__(self, "params", tuple(pairs))
        _ = self.tree, self.likely  # refuse conditions and beliefs that do not fit

    @cached_property
    def tree(self) -> ConditionTree | None:
        """Return the conditions of the parameters; None if all of them always exist."""
        return ConditionTree.of(self.params, self.blocks)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return tuple(name for name, _ in self.params)

    @cached_property
    def dim(self) -> int:
        """Return the number of coordinates of the cube: d."""
        return sum(param.dim for _, param in self.params)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Return the coordinates of each parameter, in the order of the parameters."""
        ends = tuple(accumulate(param.dim for _, param in self.params))
        return tuple(slice(end - param.dim, end) for end, (_, param) in zip(ends, self.params, strict=True))

    @cached_property
    def likely(self) -> LikelyPoints | None:
        """Return where good points are believed to be; None if nothing is believed of any parameter."""
        return LikelyPoints.of(self.params, self.blocks, self.tree)

    def _repr_html_(self) -> str:
        rows = [
            (name, type(param).__name__, _range_text(param) + _when(param) + _prior(param))
            for name, param in self.params
        ]
        return html_table("Space", ["parameter", "kind", "values"], rows)

    def __getitem__(self, name: str) -> Parameter:
        return dict(self.params)[name]

    def encode(self, config: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the point of the cube that stands for a configuration; raise an error that names what does not fit."""
        if self.tree is not None:
            return self._encoded(config, self.tree)
        missing = [name for name in self.names if name not in config]
        unknown = [name for name in config if name not in self.names]
        if missing or unknown:
            raise ValueError(f"a configuration needs {list(self.names)}, got missing {missing}, unknown {unknown}")
        unit: list[float] = []
        for name, param in self.params:
            try:
                unit.extend(param.encode(config[name]))
            except (TypeError, ValueError) as error:
                raise type(error)(f"parameter {name!r}: {error}") from None
        return tuple(unit)

    def _encoded(self, config: Mapping[str, Any], tree: ConditionTree) -> tuple[float, ...]:
        """Return the point of a configuration that holds what exists beside its other values, and nothing else."""
        known: dict[str, Any] = {}
        missing: list[str] = []
        too_many: list[str] = []
        points = [tree.rest(place) for place in range(len(self.params))]
        for place in tree.order:
            name, param = self.params[place]
            if not tree.exists(place, known):
                if name in config:
                    too_many.append(f"parameter {name!r} exists only when{_when(param, known)}; leave it out")
            elif name not in config:
                missing.append(name)
            else:
                try:
                    points[place] = param.encode(config[name])
                except (TypeError, ValueError) as error:
                    raise type(error)(f"parameter {name!r}: {error}") from None
                known[name] = param.decode(points[place])
        unknown = [name for name in config if name not in self.names]
        if missing or unknown:
            raise ValueError(f"this configuration needs {[*known, *missing]}, got missing {missing}, unknown {unknown}")
        if too_many:
            raise ValueError(too_many[0])
        return tuple(coordinate for point in points for coordinate in point)

    def exact(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a valid configuration with the very values that were given, as plain types of Python.

        A point of the cube cannot say every value: decoded, a value may differ in its last digits.
        """
        return self.exact_at(config)[0]

    def exact_at(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[float, ...]]:
        """Return what `exact` returns, and its point of the cube."""
        unit = self.encode(config)
        decoded, free = self.decode(unit), self._free
        return {name: float(config[name]) if name in free else value for name, value in decoded.items()}, unit

    @cached_property
    def _free(self) -> frozenset[str]:
        """Return the names of the parameters whose values a point may not say to the last digit."""
        return frozenset(name for name, param in self.params if isinstance(param, Float) and param.step is None)

    def decode(self, unit: Sequence[float]) -> dict[str, Any]:
        """Return the configuration that is run for a point of the cube, or for the nearest point if it lies outside."""
        if len(unit) != self.dim or any(math.isnan(coordinate) for coordinate in unit):
            raise ValueError(f"a point needs {self.dim} coordinates that are numbers, got {tuple(unit)}")
        if self.tree is not None:
            return self._decoded(unit, self.tree)
        return {name: param.decode(unit[block]) for (name, param), block in zip(self.params, self.blocks, strict=True)}

    def _decoded(self, unit: Sequence[float], tree: ConditionTree) -> dict[str, Any]:
        """Return the configuration of a point: what exists there, in the order of the parameters."""
        found: dict[str, Any] = {}
        for place in tree.order:
            if tree.exists(place, found):
                name, param = self.params[place]
                found[name] = param.decode(unit[tree.blocks[place]])
        return {name: found[name] for name in self.names if name in found}

    def snap(self, unit: ArrayT) -> ArrayT:
        """Return the points of the cube that are run for points [..., d]: NumPy arrays, or JAX arrays inside jit."""
        array: Any = unit
        if array.shape[-1] != self.dim:
            raise ValueError(f"points need {self.dim} coordinates, got an array of shape {array.shape}")
        xp = array.__array_namespace__()
        params = [param for _, param in self.params]
        blocks = [param.snap(xp, array[..., block]) for param, block in zip(params, self.blocks, strict=True)]
        snapped = xp.concat(blocks, axis=-1)
        return snapped if self.tree is None else self.tree.at_rest(snapped)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the space in types of JSON: a list, because some stores of JSON do not keep the order of names."""
        described: list[dict[str, Any]] = []
        for name, param in self.params:
            kind = type(param).__name__.lower()
            fields = dict(vars(param))
            # Written only where it is used, so that other spaces are stored as ever.
            when: When = fields.pop("when", ())
            if when:
                fields["when"] = {parent: list(values) for parent, values in when}
            prior: Likely | None = fields.pop("prior", None)
            if prior is not None:
                fields["prior"] = prior.to_json()
            if isinstance(param, Categorical):
                fields["choices"] = list(param.choices)
            described.append({"name": name, "kind": kind, **fields})
        return described

    @classmethod
    def from_json(cls, described: Sequence[Mapping[str, Any]]) -> "Space":
        """Return the space that `to_json` described; raise ValueError or TypeError if the description is wrong."""
        params: dict[str, Parameter] = {}
        for entry in described:
            fields = dict(entry)
            name, kind = fields.pop("name", None), fields.pop("kind", None)
            if kind not in _KINDS:
                raise ValueError(f"parameter {name!r}: kind must be one of {list(_KINDS)}, got {kind!r}")
            try:
                params[name] = _KINDS[kind](**fields)
            except (TypeError, ValueError) as error:
                raise type(error)(f"parameter {name!r}: {error}") from None
        if len(params) < len(described):
            raise ValueError(f"names of parameters must differ, got {[entry.get('name') for entry in described]}")
        return cls(params)


def _when(param: Parameter, beside: Mapping[str, Any] | None = None) -> str:
    """Return in words when a parameter exists, and if given what its parents are instead; empty if it always exists."""
    when = cast(When, getattr(param, "when", ()))
    if not when:
        return ""
    if beside is None:
        return f", when {when_text(when)}"
    now = " and ".join(
        f"{parent} is {beside[parent]!r}" if parent in beside else f"{parent} is absent" for parent, _ in when
    )
    return f" {when_text(when)}, and here {now}"


def _prior(param: Parameter) -> str:
    prior = getattr(param, "prior", None)
    return "" if prior is None else f", {prior_text(prior)}"


def _range_text(param: Parameter) -> str:
    """Return in words which values a parameter takes."""
    if isinstance(param, Categorical):
        return ", ".join(map(repr, param.choices)) + (" in this order" if param.ordered else "")
    step = "" if param.step in (None, 1) else f", steps of {param.step:g}"
    return f"{param.low:g} to {param.high:g}{', by factors' if param.log else ''}{step}"
