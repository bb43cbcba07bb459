"""Turn a history into arrays: padded, masked, standardised, and larger is better.

Data goes from the host to the device here and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import jax
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from bmbo.history.trial_records import History, TrialRecord
from bmbo.history.value_scaling import Scale

SMALLEST_BLOCK = 32
"""Rows of the smallest block: few rows are wasted, and most runs never need more at their costly levels."""

ROUNDING = 1e-4
"""Error of a standardised value, in standard deviations, that is small compared with the error of any surrogate."""


def block_size(count: int, smallest: int = SMALLEST_BLOCK) -> int:
    """Return the number of rows for `count` observations or points: a power of two, so that a run has few shapes."""
    return max(smallest, 1 << max(count - 1, 0).bit_length())


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dataset:
    """Hold observations in one block of rows per level, the top level first.

    The rows of level m and of all levels above it then come first, so that a model of level m computes on these alone.

    Attributes:
        unit: points in the unit cube; zeros where padded.
        value: standardised per level, with the sign changed so that larger is better; zeros where padded.
        mask: which rows are real.
        scales: how the values of each level were standardised, lowest level first.
        sizes: number of rows of each level's block, lowest level first.
    """

    unit: Float[Array, "n d"]
    value: Float[Array, " n"]
    mask: Bool[Array, " n"]
    scales: tuple[Scale, ...]
    sizes: tuple[int, ...] = field(metadata={"static": True})

    @property
    def num_levels(self) -> int:
        """Return the number of levels, including levels without data."""
        return len(self.sizes)

    def rows(self, level: int) -> slice:
        """Return the rows of one level's block."""
        start = sum(self.sizes[level + 1 :])
        return slice(start, start + self.sizes[level])

    def rows_from(self, level: int) -> slice:
        """Return the rows of the blocks of a level and of all levels above it."""
        return slice(0, sum(self.sizes[level:]))

    @classmethod
    def of(cls, history: History, *, squeeze: bool = False) -> "Dataset":
        """Return the observations of a history in the order of their numbers, of those trials that a model sees.

        A failed run counts as the worst value of its level. If failures were left out, a policy could ask for the
        same hopeless point for ever.
        """
        return cls.of_trials(history, history.learned_from, squeeze=squeeze)

    @classmethod
    def of_trials(cls, history: History, told: Sequence[TrialRecord], *, squeeze: bool = False) -> "Dataset":
        """Return the observations of some trials of a history."""
        return cls.of_arrays(*_observations(history, told), squeeze=squeeze)

    @classmethod
    def of_arrays(
        cls, units: Sequence[NDArray[np.floating]], values: Sequence[NDArray[np.floating]], *, squeeze: bool = False
    ) -> "Dataset":
        """Return the observations of each level, lowest first, from arrays in which larger values are better.

        `squeeze` reduces values that are extremely bad, see `Scale.squeezing`.
        """
        sizes = tuple(block_size(len(seen)) for seen in values)
        make_scale = Scale.squeezing if squeeze else Scale.linear
        scales = tuple(make_scale(np.asarray(seen, dtype=np.float64)) for seen in values)
        dim = units[0].shape[1]
        blocks_unit: list[NDArray[np.float32]] = []
        blocks_value: list[NDArray[np.float32]] = []
        blocks_mask: list[NDArray[np.bool_]] = []
        for points, seen, level_scale, size in reversed(list(zip(units, values, scales, sizes, strict=True))):
            missing = size - len(seen)
            standardised = level_scale.standardise(np.asarray(seen, dtype=np.float64))
            blocks_unit.append(np.concatenate([points, np.zeros((missing, dim))]).astype(np.float32))
            blocks_value.append(np.concatenate([standardised, np.zeros(missing)]).astype(np.float32))
            blocks_mask.append(np.arange(size) < len(seen))
        return cls(
            unit=jax.numpy.asarray(np.concatenate(blocks_unit)),
            value=jax.numpy.asarray(np.concatenate(blocks_value)),
            mask=jax.numpy.asarray(np.concatenate(blocks_mask)),
            scales=tuple(_rounded(scale) for scale in scales),
            sizes=sizes,
        )


def _rounded(scale: Scale) -> Scale:
    """Return a scale in single precision, so that the runs of docs/results repeat to the last digit.

    A scale stays as it is where rounding would lose digits: where the values lie far from zero compared with their
    spread.
    """
    single = replace(scale, shift=float(np.float32(scale.shift)), unit=float(np.float32(scale.unit)))
    return single if abs(single.shift - scale.shift) <= ROUNDING * scale.unit else scale


def _observations(
    history: History, told: Sequence[TrialRecord]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Return the points and the values of each level, lowest first, larger values better."""
    sign, dim = history.problem.sign, history.problem.space.dim
    num_levels = history.problem.ladder.num_levels
    units: list[list[tuple[float, ...]]] = [[] for _ in range(num_levels)]
    values: list[list[float]] = [[] for _ in range(num_levels)]
    for trial in told:
        if trial.value is not None:
            units[trial.query.level].append(trial.query.unit)
            values[trial.query.level].append(sign * trial.value)
    worst = [min(seen, default=None) for seen in values]
    for trial in told:
        level_worst = worst[trial.query.level]
        if trial.value is None and level_worst is not None:
            units[trial.query.level].append(trial.query.unit)
            values[trial.query.level].append(level_worst)
    return (
        [np.asarray(points, dtype=np.float64).reshape(-1, dim) for points in units],
        [np.asarray(seen, dtype=np.float64) for seen in values],
    )
