"""Describe what is searched: named parameters in a fixed order, mapped to the unit cube."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar, cast

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

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return tuple(name for name, _ in self.params)

    @property
    def dim(self) -> int:
        """Return the number of coordinates of the cube: d."""
        return sum(param.dim for _, param in self.params)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Return the coordinates of each parameter, in the order of the parameters."""
        ends = tuple(accumulate(param.dim for _, param in self.params))
        return tuple(slice(end - param.dim, end) for end, (_, param) in zip(ends, self.params, strict=True))

    def __getitem__(self, name: str) -> Parameter:
        return dict(self.params)[name]

    def encode(self, config: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the point of the cube that stands for a configuration; raise an error that names what does not fit."""
        missing = [name for name in self.names if name not in config]
        unknown = [name for name in config if name not in self.names]
        if missing or unknown:
            raise ValueError(f"a configuration needs {list(self.names)}, got missing {missing}, unknown {unknown}")
        unit: tuple[float, ...] = ()
        for name, param in self.params:
            try:
                unit += param.encode(config[name])
            except (TypeError, ValueError) as error:
                raise type(error)(f"parameter {name!r}: {error}") from None
        return unit

    def decode(self, unit: Sequence[float]) -> dict[str, Any]:
        """Return the configuration that is run for a point of the cube, or for the nearest point if it lies outside."""
        if len(unit) != self.dim or any(math.isnan(coordinate) for coordinate in unit):
            raise ValueError(f"a point needs {self.dim} coordinates that are numbers, got {tuple(unit)}")
        return {name: param.decode(unit[block]) for (name, param), block in zip(self.params, self.blocks, strict=True)}

    def snap(self, unit: ArrayT) -> ArrayT:
        """Return the points of the cube that are run for points [..., d]: NumPy arrays, or JAX arrays inside jit."""
        array: Any = unit
        if array.shape[-1] != self.dim:
            raise ValueError(f"points need {self.dim} coordinates, got an array of shape {array.shape}")
        xp = array.__array_namespace__()
        params = [param for _, param in self.params]
        blocks = [param.snap(xp, array[..., block]) for param, block in zip(params, self.blocks, strict=True)]
        return xp.concat(blocks, axis=-1)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the space in types of JSON: a list, because some stores of JSON do not keep the order of names."""
        described: list[dict[str, Any]] = []
        for name, param in self.params:
            kind = type(param).__name__.lower()
            fields = dict(vars(param))
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
