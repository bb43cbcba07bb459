"""Show the process over points and places of fidelities as one over points and levels."""

from dataclasses import dataclass

from bmbo.history.host_observations import Floats, Integers
from bmbo.problem import Space
from bmbo.surrogates.exact_gp.distances import scaled
from bmbo.surrogates.fidelity_gp.process import FidelityHyperparameters


@dataclass(frozen=True)
class PlaceProcess:
    """Hold one set of hyperparameters as a `Process`.

    Attributes:
        space: what is searched.
        hyper: the hyperparameters.
        places: of all levels, [m].
    """

    space: Space
    hyper: FidelityHyperparameters
    places: Floats

    @property
    def noise(self) -> Floats:
        """See `Process`."""
        return self.hyper.noise(self.places)

    def variance(self, level: int) -> float:
        """See `Process`."""
        return self.hyper.variance(float(self.places[level]))

    def covariance(self, unit: Floats, level: Integers, other: Floats, other_level: Integers) -> Floats:
        """See `Process`."""
        return self.hyper.covariance(self._at(unit, level), self._at(other, other_level))

    def _at(self, unit: Floats, level: Integers) -> tuple[Floats, Floats]:
        return scaled(self.space, unit, self.hyper.log_length), self.places[level]
