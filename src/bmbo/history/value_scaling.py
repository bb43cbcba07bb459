"""Standardise the values of one level to mean 0 and standard deviation 1, and restore them."""

from dataclasses import dataclass
from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy import optimize, stats

LARGEST_POWER = 2.0
"""At this power the bad side becomes a logarithm. Beyond it the values are bounded and cannot be restored."""
FEWEST = 5
"""Fewest values that show a tail: one of them may be extreme without moving the quartiles."""
OUT_OF_PROPORTION = 100.0
"""Deviations below the median, estimated from the quartiles. In the runs of docs/results no tail is longer than 40."""
QUARTILES_OF_A_NORMAL = 1.349
"""Distance between the quartiles of a normal distribution, in standard deviations."""


Leaf: TypeAlias = float | Float[Array, ""]
"""A number on the host. Inside jit it is an array that no function reads."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scale:
    """Describe how the values of one level are standardised.

    First `shift` is subtracted and the result is divided by `unit`. Then the power transformation of Yeo and Johnson is
    applied. Then `mean` is subtracted and the result is divided by `std`. A power of 1 changes nothing. Where larger is
    better, values below `shift` are bad: powers above 1 squeeze these and stretch the values above `shift`. A scale
    travels with the data that it standardised (`Dataset.scales`). Its numbers are leaves of a pytree, so that new
    numbers need no new compilation.
    """

    shift: Leaf = 0.0
    unit: Leaf = 1.0
    power: Leaf = 1.0
    mean: Leaf = 0.0
    std: Leaf = 1.0

    @classmethod
    def linear(cls, seen: NDArray[np.float64]) -> "Scale":
        """Return the scale by mean and standard deviation alone; the unit is 1 for no data or constant values."""
        if len(seen) == 0:
            return cls()
        mean, std = float(np.mean(seen)), float(np.std(seen))
        return cls(shift=mean, unit=std if _is_spread(std, mean) else 1.0)

    @classmethod
    def squeezing(cls, seen: NDArray[np.float64]) -> "Scale":
        """Return the scale of `linear`, or one with a power if the worst value is extremely far from the others.

        Larger values are better. The loss of a run that diverged may be finite, so that the run does not count as a
        failure. It would dominate the standard deviation, and no surrogate could tell the other values apart. Then the
        power, from 1 to 2, is the one under which the values are most like a normal distribution.
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
        """Return values that a surrogate learns, from values in the objective's unit, where larger is better."""
        return (_through_power((values - self.shift) / self.unit, self.power) - self.mean) / self.std

    def standardised(self, value: float) -> float:
        """Return one value, standardised as by `standardise`."""
        return float(self.standardise(np.asarray([value]))[0])

    def restore(self, standardised: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values in the objective's unit from standardised values: the inverse of `standardise`."""
        return _through_inverse(standardised * self.std + self.mean, self.power) * self.unit + self.shift


def _is_spread(size: float, around: float) -> bool:
    """Return whether a spread is larger than the rounding of the values."""
    return size > 1e-12 * max(1.0, abs(around))


def _through_power(values: NDArray[np.float64], power: Leaf) -> NDArray[np.float64]:
    """Return values after the power transformation of Yeo and Johnson (2000), equation 2.1, for powers from 1 to 2."""
    if power == 1.0:
        return values
    good, bad = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    above = np.expm1(power * np.log1p(good)) / power
    rest = LARGEST_POWER - power
    below = np.log1p(bad) if rest == 0 else np.expm1(rest * np.log1p(bad)) / rest
    return above - below


def _through_inverse(values: NDArray[np.float64], power: Leaf) -> NDArray[np.float64]:
    """Return the values from which `_through_power` makes the given ones."""
    if power == 1.0:
        return values
    above, below = np.maximum(values, 0.0), np.maximum(-values, 0.0)
    good = np.expm1(np.log1p(power * above) / power)
    rest = LARGEST_POWER - power
    bad = np.expm1(below) if rest == 0 else np.expm1(np.log1p(rest * below) / rest)
    return good - bad
