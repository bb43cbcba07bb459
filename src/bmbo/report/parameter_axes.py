"""Say how a parameter is drawn along an axis: on which scale, at which places, and with which labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bmbo.history.host_observations import Floats
from bmbo.problem import Categorical, Space
from bmbo.problem.parameters import Choice
from bmbo.report.report_data import short_value, spread_out


@dataclass(frozen=True)
class ParameterAxis:
    """Describe the axis of one parameter.

    Attributes:
        name: of the parameter.
        block: its coordinates in the cube.
        units: coordinates of some of its values, in their order [g b].
        places: where these values stand along the axis [g]; choices stand at 0, 1, 2, ...
        is_log: whether the axis is logarithmic.
        choices: of a categorical parameter; empty for a number.
    """

    name: str
    block: slice
    units: Floats
    places: Floats
    is_log: bool = False
    choices: tuple[Choice, ...] = ()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the choices."""
        return tuple(short_value(choice) for choice in self.choices)

    def place(self, value: Any) -> float:
        """Return where a value of the parameter stands along the axis."""
        if not self.choices:
            return float(value)
        # Python calls True and 1 equal, but they are two choices.
        matches = (own == value and isinstance(own, bool) == isinstance(value, bool) for own in self.choices)
        return float(next(place for place, match in enumerate(matches) if match))

    def through(self, centre: Sequence[float] | Floats) -> Floats:
        """Return the points of the cube in which this parameter takes its values, and the others those of a point."""
        points = np.tile(np.asarray(centre, np.float64), (len(self.units), 1))
        points[:, self.block] = self.units
        return points


def axis_of(space: Space, name: str, most: int) -> ParameterAxis:
    """Return the axis of a parameter, with at most `most` values of a number, and all choices of a categorical one."""
    place = space.names.index(name)
    param, block = space[name], space.blocks[place]
    if isinstance(param, Categorical):
        units = np.array([param.encode(choice) for choice in param.choices], np.float64)
        return ParameterAxis(name, block, units, np.arange(len(units), dtype=np.float64), choices=param.choices)
    units = np.unique(param.snap(np, np.linspace(0.0, 1.0, 8 * most)))
    units = units[spread_out(len(units), most)]
    values, first = np.unique([float(param.decode((unit,))) for unit in units], return_index=True)
    return ParameterAxis(name, block, units[first][:, None], values, is_log=param.log)
