"""Measure distances between points, parameter by parameter.

Each parameter has one length-scale. Two different choices of an unordered parameter are at distance one.
"""

import numpy as np

from bmbo.history.host_observations import Floats
from bmbo.problem import Categorical, Space


def scaled(space: Space, unit: Floats, log_length: Floats) -> Floats:
    """Return points [n d] whose squared distances are the sums of `squares`, each over its squared length-scale."""
    return unit * np.repeat(np.exp(-log_length) * np.sqrt(_shares(space)), _dims(space))


def squares(space: Space, unit: Floats) -> Floats:
    """Return the squared distances of all pairs in each parameter, [p n n]."""
    parts = np.empty((len(space.params), len(unit), len(unit)))
    for place, (block, share) in enumerate(zip(space.blocks, _shares(space), strict=True)):
        columns = unit[:, block]
        parts[place] = share * ((columns[:, None] - columns[None]) ** 2).sum(-1)
    return parts


def _shares(space: Space) -> Floats:
    # Two choices differ by one in two coordinates.
    return np.array([0.5 if isinstance(param, Categorical) and param.dim > 1 else 1.0 for _, param in space.params])


def _dims(space: Space) -> list[int]:
    return [param.dim for _, param in space.params]
