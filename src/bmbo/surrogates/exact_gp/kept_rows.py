"""Choose which outcomes an exact process keeps when there are too many."""

import numpy as np

from bmbo.history.host_observations import Floats, Integers

BEST = 0.5
"""Share of the places of a group for its best rows."""
NEWEST = 0.1
"""Share for the newest of the others: they are near where the search is now."""


def kept_rows(unit: Floats, level: Integers, value: Floats, top: int, most: int) -> Integers:
    """Return the rows to keep, in their order.

    The top level gets at most two thirds of the places, or more if the other levels do not fill theirs. Of either group
    the best rows are kept, the newest of the others, and then, one after the other, the row that is furthest from all
    that are kept.
    """
    if len(value) <= most:
        return np.arange(len(value))
    at_top, below = np.flatnonzero(level == top), np.flatnonzero(level != top)
    num_top = min(len(at_top), max(2 * most // 3, most - len(below)))
    kept = [_kept(at_top, unit, value, num_top), _kept(below, unit, value, most - num_top)]
    return np.sort(np.concatenate(kept))


def _kept(rows: Integers, unit: Floats, value: Floats, num: int) -> Integers:
    """Return `num` of the rows of one group."""
    if len(rows) <= num:
        return rows
    order = rows[np.argsort(-value[rows], kind="stable")]
    num_best = int(BEST * num)
    best, others = order[:num_best], np.sort(order[num_best:])
    num_newest = int(NEWEST * num)
    kept = np.concatenate([best, others[len(others) - num_newest :]])
    rest = others[: len(others) - num_newest]
    return np.concatenate([kept, _filling(rest, unit, kept, num - len(kept))])


def _filling(rows: Integers, unit: Floats, kept: Integers, num: int) -> Integers:
    """Return `num` rows, each the furthest from those that are kept and from those before it."""
    nearest = np.full(len(rows), np.inf)
    for each in kept:
        nearest = np.minimum(nearest, _squares(unit[rows], unit[each]))
    found: list[int] = []
    for _ in range(num):
        place = int(nearest.argmax())
        found.append(place)
        nearest = np.minimum(nearest, _squares(unit[rows], unit[rows[place]]))
        nearest[place] = -1.0  # equal points have a distance of zero, and are taken before this one again
    return rows[np.array(found, np.intp)]


def _squares(points: Floats, one: Floats) -> Floats:
    return ((points - one) ** 2).sum(1)
