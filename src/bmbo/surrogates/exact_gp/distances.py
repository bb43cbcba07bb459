"""Measure distances between points, parameter by parameter.

Each parameter has one length-scale. Two different choices of an unordered parameter are at distance one. Where a
parameter may be absent, two points that lack it are at distance zero in it, and one that has it is at distance one from
one that lacks it, whatever its value. For that, a coordinate is bent to an arc, whose centre stands for "absent": the
sum of squares is then still one of a Euclidean space, so that every correlation of it is a covariance.
"""

import math

import numpy as np

from bmbo.history.host_observations import Floats
from bmbo.problem import Categorical, Space

ARC = math.pi / 3
"""Angle of the arc: its ends are as far from each other as from the centre. It is nearly straight."""


def scaled(space: Space, unit: Floats, log_length: Floats) -> Floats:
    """Return points [n d] whose squared distances are the sums of `squares`, each over its squared length-scale.

    There are more coordinates than in the cube where parameters may be absent.
    """
    if space.tree is not None:
        parts = _placed(space, unit)
        return np.hstack([part * scale for part, scale in zip(parts, np.exp(-log_length), strict=True)])
    return unit * np.repeat(np.exp(-log_length) * np.sqrt(_shares(space)), _dims(space))


def squares(space: Space, unit: Floats) -> Floats:
    """Return the squared distances of all pairs in each parameter, [p n n]."""
    parts = np.empty((len(space.params), len(unit), len(unit)))
    if space.tree is not None:
        for place, columns in enumerate(_placed(space, unit)):
            parts[place] = ((columns[:, None] - columns[None]) ** 2).sum(-1)
        return parts
    for place, (block, share) in enumerate(zip(space.blocks, _shares(space), strict=True)):
        columns = unit[:, block]
        parts[place] = share * ((columns[:, None] - columns[None]) ** 2).sum(-1)
    return parts


def _placed(space: Space, unit: Floats) -> list[Floats]:
    """Return coordinates of points for each parameter, with a place for "absent"; for spaces with conditions."""
    if space.tree is None:
        raise ValueError(f"no parameter of {space} can be absent")
    placed: list[Floats] = []
    shares = np.sqrt(_shares(space))
    for block, share, exists in zip(space.blocks, shares, space.tree.active(unit), strict=True):
        here = unit[:, block]
        if exists is None:
            placed.append(share * here)
        elif here.shape[1] == 1:
            angle = ARC * (here - 0.5)
            placed.append(exists[:, None] * np.hstack([np.sin(angle), np.cos(angle)]))
        else:
            # An absent choice rests at the origin, too near to the others: one more coordinate takes it away.
            indicator = np.where(exists, 0.0, math.sqrt(1.0 - share**2))[:, None]
            placed.append(np.hstack([np.where(exists[:, None], share * here, 0.0), indicator]))
    return placed


def _shares(space: Space) -> Floats:
    # Two choices differ by one in two coordinates.
    return np.array([0.5 if isinstance(param, Categorical) and param.dim > 1 else 1.0 for _, param in space.params])


def _dims(space: Space) -> list[int]:
    return [param.dim for _, param in space.params]
