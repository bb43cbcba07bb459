"""Say which of several results no other one beats, and how much room they leave: fronts and their hypervolume.

All values are such that larger is better.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Integers = NDArray[np.intp]


def on_front(values: Floats) -> Booleans:
    """Return which rows [n k] no other row beats: none is as good in every objective and better in one.

    Of rows that are equal, each is on the front.
    """
    # In this order no row is beaten by a later one.
    left = np.lexsort((*values.T, values.sum(1)))[::-1]
    place = 0
    while place < len(left):
        row, later = values[left[place]], values[left[place + 1 :]]
        beaten = (later <= row).all(1) & (later < row).any(1)
        left = np.concatenate([left[: place + 1], left[place + 1 :][~beaten]])
        place += 1
    kept = np.zeros(len(values), np.bool_)
    kept[left] = True
    return kept


def hypervolume(values: Floats, reference: Floats) -> float:
    """Return the volume that rows [n k] beat together, as far as it lies beyond a reference point [k]."""
    gains = values[(values > reference).all(1)] - reference
    if len(gains) == 0:
        return 0.0
    return _volume(np.unique(gains[on_front(gains)], axis=0)[::-1])


def hypervolume_gain(values: Floats, new: Floats, reference: Floats) -> float:
    """Return by how much one more row [k] makes the hypervolume of rows [n k] larger."""
    if not (new > reference).all():
        return 0.0
    return float(np.prod(new - reference)) - hypervolume(np.minimum(values, new), reference)


def orders(values: Floats) -> Integers:
    """Return the rows [n k], without NaN, in the order in which one would go on with them.

    First come those on the front, then those on the front of the others, and so on. On a front those come first whose
    worst rank among the objectives is best: they do well in all of them.
    """
    if values.shape[1] == 1:
        return np.argsort(-values[:, 0], kind="stable")
    left, found = np.arange(len(values)), np.zeros(0, np.intp)
    ranks = values.argsort(0, kind="stable").argsort(0, kind="stable")
    while len(left):
        front = left[on_front(values[left])]
        found = np.concatenate([found, front[np.argsort(-ranks[front].min(1), kind="stable")]])
        left = np.setdiff1d(left, front)
    return found


def reference_below(values: Floats, share: float = 0.1) -> Floats:
    """Return a point [k] a little worse than the worst values on the front of rows [n k]."""
    front = values[on_front(values)]
    low, high = front.min(0), front.max(0)
    width = np.where(high > low, high - low, np.maximum(np.abs(low), 1.0))
    return low - share * width


def _volume(gains: Floats) -> float:
    """Return the volume between rows [n k], none of which beats another, and zero (While et al. 2012)."""
    if gains.shape[1] == 1:
        return float(gains.max())
    if gains.shape[1] == 2:
        rising = gains[np.argsort(gains[:, 0])]
        widths = np.diff(rising[:, 0], prepend=0.0)
        return float(widths @ rising[:, 1])
    total = 0.0
    for place, row in enumerate(gains):
        total += float(np.prod(row))
        later = np.minimum(gains[place + 1 :], row)
        if len(later):
            total -= _volume(np.unique(later[on_front(later)], axis=0))
    return total
