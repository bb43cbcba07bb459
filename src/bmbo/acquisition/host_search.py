"""Search a space with NumPy: candidates, neighbours of points, and climbs that need no gradient."""

from collections.abc import Callable

import numpy as np

from bmbo.history.host_observations import Floats, Integers
from bmbo.problem import Categorical, Float, Int, Space
from bmbo.problem.condition_tree import ConditionTree
from bmbo.problem.parameters import Parameter

NUM_UNIFORM = 600
"""Candidates all over the space."""
NUM_NEAR = 24
"""Candidates near each centre, at each of the scales of the next line."""
NEAR_SCALES = (0.02, 0.1, 0.3)
CLIMB_SCALES = (0.1, 0.03, 0.01, 0.003, 0.001)
NUM_CLIMBS = 6
NUM_TRIES = 24
"""Neighbours that a climb tries at each scale."""
MOST_STEPS = 64
"""An ordered parameter with more values is moved like a real one."""


def candidates(space: Space, rng: np.random.Generator, centres: Floats, known: Floats) -> Floats:
    """Return points all over the space, points near the centres, and the known points; none twice."""
    uniform = space.snap(rng.random((NUM_UNIFORM, space.dim)))
    near = [moved(space, rng, centres, scale, NUM_NEAR) for scale in NEAR_SCALES]
    return np.unique(np.vstack([uniform, *near, known]), axis=0)


def climbed(
    space: Space, rng: np.random.Generator, height: Callable[[Floats], Floats], points: Floats, heights: Floats
) -> tuple[Floats, Floats]:
    """Return the ends of climbs from the highest points, by random moves of ever smaller scale, and their heights."""
    first = np.argsort(-heights)[:NUM_CLIMBS]
    at, reached = points[first], heights[first]
    rows = np.arange(len(at))
    for scale in CLIMB_SCALES:
        tried = moved(space, rng, at, scale, NUM_TRIES)
        found = height(tried).reshape(len(at), NUM_TRIES)
        places = found.argmax(1)
        higher = found[rows, places] > reached
        at = np.where(higher[:, None], tried.reshape(len(at), NUM_TRIES, space.dim)[rows, places], at)
        reached = np.where(higher, found[rows, places], reached)
    return at, reached


def moved(space: Space, rng: np.random.Generator, centres: Floats, scale: float, num: int) -> Floats:
    """Return `num` neighbours of each point, changed in a few parameters, [centres * num, d].

    Real coordinates take Gaussian steps of the scale, ordered values at least one step, and unordered ones a new
    choice, more rarely if the scale is small.
    """
    num_params = len(space.params)
    few = max(min(1.0, 2.5 / num_params), 0.2)
    points = np.repeat(centres, num, 0)
    chosen = rng.random((len(points), num_params)) < few
    if space.tree is None:
        chosen[np.arange(len(points)), rng.integers(num_params, size=len(points))] = True
    else:
        chosen[np.arange(len(points)), _one_that_exists(space.tree, rng, points)] = True
        points = _with_random_rest(space.tree, rng, points)
    for place, ((_, param), block) in enumerate(zip(space.params, space.blocks, strict=True)):
        rows = np.flatnonzero(chosen[:, place])
        if is_unordered(param):
            rows = rows[rng.random(len(rows)) < min(1.0, 0.25 + 2.0 * scale)]
            points[rows, block] = np.eye(param.dim)[rng.integers(param.dim, size=len(rows))]
            continue
        steps = _coordinates(param)
        if steps is None:
            points[rows, block] += scale * rng.normal(size=(len(rows), param.dim))
            continue
        at = np.abs(points[rows, block] - steps).argmin(1)
        by = np.rint(scale * len(steps) * rng.normal(size=len(rows)))
        by = np.where(by == 0, rng.choice([-1, 1], size=len(rows)), by).astype(int)
        points[rows, block.start] = steps[np.clip(at + by, 0, len(steps) - 1)]
    return space.snap(np.clip(points, 0.0, 1.0))


def _one_that_exists(tree: ConditionTree, rng: np.random.Generator, points: Floats) -> Integers:
    """Return for each point one of the parameters that exist there [n]: to move another alone would change nothing."""
    height = rng.random((len(points), len(tree.names)))
    for place, exists in enumerate(tree.active(points)):
        if exists is not None:
            height[~exists, place] = -1.0
    return height.argmax(1)


def _with_random_rest(tree: ConditionTree, rng: np.random.Generator, points: Floats) -> Floats:
    """Return points with random coordinates for what does not exist there: a move of a parent may bring it to life."""
    filled, drawn = points.copy(), rng.random(points.shape)
    for block, exists in zip(tree.blocks, tree.active(points), strict=True):
        if exists is not None:
            filled[~exists, block] = drawn[~exists, block]
    return filled


def is_unordered(param: Parameter) -> bool:
    """Return whether a parameter has one coordinate for each of its choices."""
    return isinstance(param, Categorical) and param.dim > 1


def _coordinates(param: Parameter) -> Floats | None:
    """Return the coordinates of all values of an ordered parameter; None if there are too many."""
    if isinstance(param, Categorical):
        values = list(param.choices)
    elif isinstance(param, Int):
        values = range(param.low, param.high + 1, param.step)
    elif isinstance(param, Float) and param.step is not None:
        num = int((param.high - param.low) / param.step + 1e-6) + 1
        values = [param.low + place * param.step for place in range(min(num, MOST_STEPS + 1))]
    else:
        return None
    return np.array([param.encode(value)[0] for value in values]) if len(values) <= MOST_STEPS else None
