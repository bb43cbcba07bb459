"""Doubt a model while much of the budget is left: the same means, larger deviations, so that a run explores first.

The points that a rule chooses are those that a model overrates, so that it errs there by more than its deviations say.
Early in a run an error can still be mended, and what is learned pays for long. At the end it pays no more.
"""

from dataclasses import dataclass, replace

from bmbo.history.host_observations import Floats, Integers
from bmbo.protocols import ExactPosterior, WeightedPosteriors


@dataclass(frozen=True)
class EarlyDoubt:
    """Say how far deviations are enlarged.

    Args:
        factor: by which deviations are multiplied at the beginning; 1 is no doubt.
        until: share of the budget that is left when the factor begins to fall to 1, where it is at the end.
    """

    factor: float = 1.5
    until: float = 0.5

    def __post_init__(self) -> None:
        if not self.factor >= 1.0:
            raise ValueError(f"the factor of deviations must be at least 1, got {self.factor}")
        if not 0.0 < self.until <= 1.0:
            raise ValueError(f"the share of the budget must be above 0 and at most 1, got {self.until}")

    def factor_at(self, left: float) -> float:
        """Return the factor when a share of the budget is left."""
        return 1.0 + (self.factor - 1.0) * min(1.0, max(0.0, left) / self.until)

    def doubted(self, posteriors: WeightedPosteriors, left: float) -> WeightedPosteriors:
        """Return posteriors with larger deviations."""
        factor = self.factor_at(left)
        if factor == 1.0:
            return posteriors
        return replace(posteriors, parts=tuple(Doubted(part, factor) for part in posteriors.parts))


@dataclass(frozen=True)
class Doubted:
    """Show a posterior with deviations multiplied by a factor, as if all its values were that much less certain.

    Attributes:
        part: the posterior: an `ExactPosterior`, as this is.
        factor: of all deviations, those of the noise too, so that the means after an outcome stay what they were.
    """

    part: ExactPosterior
    factor: float

    @property
    def unit(self) -> Floats:
        """See `ExactPosterior`."""
        return self.part.unit

    @property
    def level(self) -> Integers:
        """See `ExactPosterior`."""
        return self.part.level

    @property
    def noise(self) -> Floats:
        """See `ExactPosterior`."""
        return self.part.noise * self.factor**2

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """See `ExactPosterior`."""
        mean, variance = self.part.moments(unit, level)
        return mean, variance * self.factor**2

    def covariance(self, unit: Floats, level: int, other: Floats, other_level: int) -> Floats:
        """See `ExactPosterior`."""
        return self.part.covariance(unit, level, other, other_level) * self.factor**2

    def imagined(self, unit: Floats, level: int, white: Floats) -> "Doubted":
        """See `ExactPosterior`."""
        return replace(self, part=self.part.imagined(unit, level, white * self.factor))
