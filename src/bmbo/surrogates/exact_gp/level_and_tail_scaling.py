"""Put the values of all levels on one scale on which a Gaussian process can believe them."""

from dataclasses import dataclass, replace

import numpy as np

from bmbo.history.host_observations import Floats, Observations
from bmbo.history.same_point import point_key

HALF_NORMAL = 0.798
"""Mean of the positive half of a standard Gaussian."""
BEND = 2.0
"""Units below the median from which on values are drawn in."""
DEPTH = 2.5
"""Most units that a value can lie below the bend."""
LARGEST = 1e150
"""Larger values count as this one: their squares are finite."""
FEWEST_SHARED = 3
"""Points that two levels must share before one is scaled by the other."""


@dataclass(frozen=True)
class TailScale:
    """Describe how the values of one level are standardised; larger is better.

    A value is measured from `centre` in units of `spread`. Beyond `BEND` units on the bad side it grows by its
    logarithm, and by `DEPTH` at most. Then `mean` is subtracted, the result is multiplied by `ratio`, and `shift` is
    added. A failure counts as the value `worst`.
    """

    centre: float = 0.0
    spread: float = 1.0
    worst: float = 0.0
    mean: float = 0.0
    ratio: float = 1.0
    shift: float = 0.0

    def standardise(self, value: Floats) -> Floats:
        """Return values that a process learns; NaN is a failure."""
        return self.shift + (self.bent(value) - self.mean) * self.ratio

    @property
    def unit(self) -> float:
        """Return what one standardised unit is in the objective's unit, where the tail is not drawn in."""
        return self.spread / self.ratio

    def restore(self, standardised: Floats) -> Floats:
        """Return values in the objective's unit: the inverse of `standardise`, as far as `DEPTH` allows."""
        bent = (standardised - self.shift) / self.ratio + self.mean
        low = np.expm1(np.clip(-bent - BEND, 0.0, DEPTH))
        return self.centre + self.spread * np.where(bent < -BEND, -BEND - low, bent)

    def bent(self, value: Floats) -> Floats:
        """Return values from the centre in units of the spread, with the bad tail drawn in."""
        value = np.clip(np.where(np.isfinite(value), value, self.worst), -LARGEST, LARGEST)
        z = (value - self.centre) / self.spread
        low = np.maximum(-z - BEND, 0.0)
        return np.where(z < -BEND, -BEND - np.minimum(np.log1p(low), DEPTH), z)


def scales_of(observations: Observations) -> dict[int, TailScale]:
    """Return the scale of each level that has outcomes.

    Each level is measured from its median in units of the spread of its better half, so that neither divergence nor a
    long tail of bad values hides the differences between good ones. A level above the first is scaled so that the
    points that it shares with lower levels have the same mean and deviation there: only good points climb the ladder,
    and their own mean and deviation say little.
    """
    scales: dict[int, TailScale] = {}
    reached: dict[bytes, float] = {}
    keys = [point_key(np.round(row, 9)) for row in observations.unit]
    for level in np.unique(observations.level):
        rows = np.flatnonzero(observations.level == level)
        value = observations.value[rows]
        scale = _unit_scale(value)
        bent = scale.bent(value)
        shared = [place for place, row in enumerate(rows) if keys[row] in reached]
        lower = np.array([reached[keys[rows[place]]] for place in shared])
        here = bent[shared]
        if len(shared) >= FEWEST_SHARED and lower.std() > 0.05 and here.std() > 0.0:
            whole = max(float(bent.std()), 1e-12)
            ratio = float(np.clip(lower.std() / here.std(), 0.2 / whole, 5.0 / whole))
            scale = replace(scale, mean=float(here.mean()), ratio=ratio, shift=float(lower.mean()))
        else:
            scale = replace(scale, mean=float(bent.mean()), ratio=1.0 / (float(bent.std()) or 1.0))
        scales[int(level)] = scale
        reached.update(zip((keys[row] for row in rows), scale.standardise(value).tolist(), strict=True))
    return scales


def standardised(observations: Observations, scales: dict[int, TailScale]) -> Observations:
    """Return the observations with standardised values."""
    values = np.zeros(len(observations))
    for level, scale in scales.items():
        rows = observations.level == level
        values[rows] = scale.standardise(observations.value[rows])
    return replace(observations, value=values)


def _unit_scale(value: Floats) -> TailScale:
    """Return a scale by the median and the spread of the better half alone."""
    known = np.sort(np.clip(value[np.isfinite(value)], -LARGEST, LARGEST))
    if len(known) == 0:
        return TailScale()
    centre = float(np.median(known))
    upper = known[known > centre] - centre
    spread = float(upper.mean()) / HALF_NORMAL if len(upper) else 0.0
    if spread <= 1e-12 * max(1.0, abs(centre)):
        spread = float(known[len(known) // 4 :].std()) or 1.0
    return TailScale(centre, spread, float(known[0]))
