"""Estimate means and covariances from drawn functions, so that rules for exact moments serve networks too.

All is computed in the space of the draws. One column of centred draws belongs to each point and level, and products of
columns are covariances. An outcome shrinks all columns along its own, which conditions the covariances exactly.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from bmbo.history.host_observations import Floats, Integers
from bmbo.protocols import Posterior

CHUNK = 256
"""Points that are evaluated at once: with one size, one program is compiled."""
CHANCE = 3.84
"""Squared correlation, times the number of draws, that chance alone exceeds in one of twenty cases."""
LEAST_VARIANCE = 1e-10


@dataclass(frozen=True)
class Imagined:
    """Hold one imagined outcome.

    Attributes:
        column: of its point and level, [s].
        shrink: how much of this column every other one loses.
        step: how far the means move along their products with the column, [f].
    """

    column: Floats
    shrink: float
    step: Floats


@dataclass(frozen=True)
class DrawnMoments:
    """Hold drawn functions, with outcomes imagined: an `ExactPosterior` with moments estimated from draws.

    Attributes:
        functions: what was learned.
        unit: observed and imagined points, [n d].
        level: their levels, [n].
        noise: of an observation about its function, [m].
        distinct: how many draws differ at the lowest level.
        outcomes: what was imagined, in this order.
    """

    functions: Posterior
    unit: Floats
    level: Integers
    noise: Floats
    distinct: int
    outcomes: tuple[Imagined, ...] = ()

    @classmethod
    def of(cls, functions: Posterior, unit: Floats, level: Integers) -> "DrawnMoments":
        """Return the moments of a posterior that has seen some points at some levels."""
        noise = np.asarray(functions.noise, np.float64)
        distinct = len(np.unique(_drawn(functions, unit[:1])[:, 0, 0]))
        return cls(functions, unit, level, noise, distinct)

    def moments(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """See `ExactPosterior`."""
        mean, columns = self._columns(unit, level)
        return mean, np.maximum((columns**2).sum(0), LEAST_VARIANCE)

    def covariance(self, unit: Floats, level: int, other: Floats, other_level: int) -> Floats:
        """See `ExactPosterior`; a correlation that may be chance is none, and larger ones are smaller by chance."""
        one, two = self._columns(unit, level)[1], self._columns(other, other_level)[1]
        product = one.T @ two
        scale = np.sqrt(np.maximum(np.outer((one**2).sum(0), (two**2).sum(0)), LEAST_VARIANCE**2))
        chance = min(CHANCE / max(self.distinct, 1), 0.99)
        square = np.clip((product / scale) ** 2, 0.0, 1.0)
        return np.sign(product) * scale * np.sqrt(np.maximum(square - chance, 0.0) / (1.0 - chance))

    def imagined(self, unit: Floats, level: int, white: Floats) -> "DrawnMoments":
        """See `ExactPosterior`."""
        column = self._columns(unit[None], level)[1][:, 0]
        variance = float(column @ column)
        seen = variance + float(self.noise[level]) + LEAST_VARIANCE
        # (I - a z z^T)^2 = I - z z^T / (z^T z + noise): the columns that are left have the conditioned covariances.
        shrink = (1.0 - np.sqrt(1.0 - variance / seen)) / max(variance, LEAST_VARIANCE)
        outcome = Imagined(column, float(shrink), white / np.sqrt(seen))
        unit, levels = np.vstack([self.unit, unit]), np.append(self.level, level)
        return replace(self, unit=unit, level=levels, outcomes=(*self.outcomes, outcome))

    def _columns(self, unit: Floats, level: int) -> tuple[Floats, Floats]:
        """Return means [q f], and centred draws [s q] whose products are covariances."""
        drawn = _drawn(self.functions, unit)[:, :, level].astype(np.float64)
        mean = drawn.mean(0)
        columns = (drawn - mean) / np.sqrt(max(len(drawn) - 1, 1))
        means = mean[:, None]
        for outcome in self.outcomes:
            along = outcome.column @ columns
            means = means + along[:, None] * outcome.step
            columns = columns - outcome.shrink * np.outer(outcome.column, along)
        return means, columns


@jax.jit
def _draw(functions: Posterior, unit: jax.Array) -> jax.Array:
    return functions.draw(unit)


def _drawn(functions: Posterior, unit: Floats) -> np.ndarray:
    """Return all functions at all levels of some points, [s q m]."""
    parts: list[np.ndarray] = []
    for first in range(0, len(unit), CHUNK):
        rows = unit[first : first + CHUNK]
        padded = np.zeros((CHUNK, unit.shape[1]), np.float32)
        padded[: len(rows)] = rows
        parts.append(np.asarray(_draw(functions, jnp.asarray(padded)))[:, : len(rows)])
    return np.concatenate(parts, axis=1)
