"""How the values of one level become numbers of mean 0 and standard deviation 1, and back."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

LARGEST_POWER = 2.0
"""Where the bad side is squeezed to a logarithm. Beyond it the power's values are bounded and have no inverse."""
FEWEST = 5
"""Values that say something of a tail: of so many one may be out of proportion and the quartiles are not."""
OUT_OF_PROPORTION = 100.0
"""Deviations below the median, as the quartiles have them. In the runs of docs/results no tail is longer than 40."""
QUARTILES_OF_A_NORMAL = 1.349
"""Distance of the quartiles of a normal distribution, in standard deviations."""


@dataclass(frozen=True)
class Scale:
    """A value less `shift`, in `unit`s, through a power of Yeo and Johnson, less `mean` and over `std`.

    A power of 1 changes nothing. Powers above it squeeze what lies below `shift`, the bad side where larger is better,
    and stretch what lies above.
    """

    shift: float = 0.0
    unit: float = 1.0
    power: float = 1.0
    mean: float = 0.0
    std: float = 1.0

    @classmethod
    def linear(cls, seen: NDArray[np.float64]) -> "Scale":
        """By mean and standard deviation alone; no data, one value or constant values keep their unit."""
        if len(seen) == 0:
            return cls()
        mean, std = float(np.mean(seen)), float(np.std(seen))
        return cls(shift=mean, unit=std if _is_spread(std, mean) else 1.0)

    @classmethod
    def squeezing(cls, seen: NDArray[np.float64]) -> "Scale":
        """As `linear`, unless the worst value, larger ones being better, is out of all proportion to the others.

        A loss that exploded is not infinite, and so no failure; but the standard deviation is then its own, and no
        surrogate could tell the others apart. The power is then the one, from 1 to 2, under which the values are most
        like a normal distribution.
        """
        linear = cls.linear(seen)
        if len(seen) < FEWEST:
            return linear
        low, middle, high = (float(each) for each in np.quantile(seen, (0.25, 0.5, 0.75)))
        unit = (high - low) / QUARTILES_OF_A_NORMAL
        if not _is_spread(unit, middle) or middle - float(np.min(seen)) < OUT_OF_PROPORTION * unit:
            return linear
        centred = (seen - middle) / unit

        def unlikely(power: float) -> float:
            return -float(stats.yeojohnson_llf(power, centred))

        between = optimize.minimize_scalar(unlikely, bounds=(1.0, LARGEST_POWER), method="bounded").x
        power = min((1.0, float(between), LARGEST_POWER), key=unlikely)  # the search never tries its ends
        squeezed = _through_power(centred, power)
        return cls(middle, unit, power, float(np.mean(squeezed)), float(np.std(squeezed)))

    def standardise(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values in the objective's unit, larger ones better, to numbers that a surrogate learns."""
        return (_through_power((values - self.shift) / self.unit, self.power) - self.mean) / self.std

    def standardised(self, value: float) -> float:
        """One value, as `standardise` has it."""
        return float(self.standardise(np.asarray([value]))[0])

    def restore(self, standardised: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse of `standardise`."""
        return _through_inverse(standardised * self.std + self.mean, self.power) * self.unit + self.shift


def _is_spread(size: float, around: float) -> bool:
    """Whether a spread is more than the rounding of the values themselves."""
    return size > 1e-12 * max(1.0, abs(around))


def _through_power(values: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Yeo and Johnson (2000), equation 2.1, for powers from 1 to 2."""
    if power == 1.0:
        return values
    good, bad = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    above = np.expm1(power * np.log1p(good)) / power
    rest = LARGEST_POWER - power
    below = np.log1p(bad) if rest == 0 else np.expm1(rest * np.log1p(bad)) / rest
    return above - below


def _through_inverse(values: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """What `_through_power` takes to `values`."""
    if power == 1.0:
        return values
    above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    good = np.expm1(np.log1p(power * above) / power)
    rest = LARGEST_POWER - power
    bad = np.expm1(below) if rest == 0 else np.expm1(np.log1p(rest * below) / rest)
    return good - bad
