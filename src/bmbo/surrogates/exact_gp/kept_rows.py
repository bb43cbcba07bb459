"""Choose which outcomes an exact process keeps when there are too many."""

import numpy as np

from bmbo.history.host_observations import Floats, Integers


def kept_rows(level: Integers, value: Floats, top: int, most: int) -> Integers:
    """Return the rows to keep, in their order.

    The top level gets at most two thirds of the places, or more if the other levels do not fill theirs. Half of the
    places of either group go to its best rows, and the other half to an even spread over the rest.
    """
    if len(value) <= most:
        return np.arange(len(value))
    at_top, below = np.flatnonzero(level == top), np.flatnonzero(level != top)
    num_top = min(len(at_top), max(2 * most // 3, most - len(below)))
    kept = [_best_and_spread(at_top, value, num_top), _best_and_spread(below, value, most - num_top)]
    return np.sort(np.concatenate(kept))


def _best_and_spread(rows: Integers, value: Floats, num: int) -> Integers:
    if len(rows) <= num:
        return rows
    order = rows[np.argsort(-value[rows], kind="stable")]
    best, rest = order[: num // 2], order[num // 2 :]
    spread = rest[np.unique(np.linspace(0, len(rest) - 1, num - num // 2).round().astype(int))]
    return np.concatenate([best, spread])
