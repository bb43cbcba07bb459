"""Put the values of many fidelities on one scale that changes smoothly from the roughest to the target."""

from dataclasses import fields, replace

import numpy as np

from bmbo.history.host_observations import Integers, Observations
from bmbo.surrogates.exact_gp.level_and_tail_scaling import TailScale, scales_of

NUM_GROUPS = 5
"""Groups of neighbouring fidelities; the first is about the roughest and the last about the target."""
FEWEST_VALUES = 4
"""Values from which on a group has a scale of its own."""
FACTORS = ("spread", "ratio")
"""Parts of a scale that are interpolated by their logarithms."""


def smooth_scales(observations: Observations) -> dict[int, TailScale]:
    """Return a scale for every level of the ladder.

    A level of many has too few values for a scale of its own. So neighbouring levels form groups, whose scales are
    those that `scales_of` gives to levels, and the scales of levels between the middles of two groups are between
    theirs.
    """
    groups = _groups(observations)
    scales = scales_of(replace(observations, level=groups, num_levels=NUM_GROUPS))
    known = sorted(scales)
    middles = np.array(known) / (NUM_GROUPS - 1)
    columns: dict[str, np.ndarray] = {}
    for name in [each.name for each in fields(TailScale)]:
        values = np.array([getattr(scales[group], name) for group in known])
        if name in FACTORS:
            columns[name] = np.exp(np.interp(observations.places, middles, np.log(values)))
        else:
            columns[name] = np.interp(observations.places, middles, values)
    return {
        level: TailScale(**{name: float(column[level]) for name, column in columns.items()})
        for level in range(observations.num_levels)
    }


def _groups(observations: Observations) -> Integers:
    """Return the group of each observation; those of a group with too few values go to the nearest that has enough."""
    nearest = np.rint(observations.places[observations.level] * (NUM_GROUPS - 1)).astype(np.intp)
    num = np.bincount(nearest[np.isfinite(observations.value)], minlength=NUM_GROUPS)
    enough = np.flatnonzero(num >= min(FEWEST_VALUES, num.max()))
    # Of two that are equally near, the higher one.
    goes_to = np.array([min(enough[::-1], key=lambda group: abs(group - each)) for each in range(NUM_GROUPS)], np.intp)
    return goes_to[nearest]
