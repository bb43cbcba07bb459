"""From a history to arrays: padded, masked, standardised, larger is better. The only crossing from host to device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from bmbo.history.scaling import Scale
from bmbo.history.trials import History, TrialRecord

SMALLEST_BLOCK = 32
"""Rows of the smallest block: few enough to waste little, enough that most runs keep it at their costly levels."""


ROUNDING = 1e-4
"""Error of a standardised value, in standard deviations, that is small beside that of any surrogate."""


def block_size(count: int) -> int:
    """Rows kept for `count` observations of one level: powers of two, so that a run meets only a few shapes."""
    return max(SMALLEST_BLOCK, 1 << max(count - 1, 0).bit_length())


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["unit", "value", "mask"],
    meta_fields=["sizes"],
)
@dataclass(frozen=True)
class Dataset:
    """Observations in one block of rows a level, the top level first, so that all rows of level >= m are a prefix.

    Attributes:
        unit: points in the unit cube; zeros where padded.
        value: standardised per level, sign turned so that larger is better; zeros where padded.
        mask: which rows are real.
        sizes: rows of each level's block, lowest level first.
    """

    unit: Float[Array, "n d"]
    value: Float[Array, " n"]
    mask: Bool[Array, " n"]
    sizes: tuple[int, ...]

    @property
    def num_levels(self) -> int:
        """How many levels there are, with data or without."""
        return len(self.sizes)

    def rows(self, level: int) -> slice:
        """Where the block of one level lies."""
        start = sum(self.sizes[level + 1 :])
        return slice(start, start + self.sizes[level])

    def rows_from(self, level: int) -> slice:
        """Where the blocks of a level and of all higher ones lie."""
        return slice(0, sum(self.sizes[level:]))

    @classmethod
    def of(cls, history: History, *, squeeze: bool = False) -> "Dataset":
        """The observations of a history, in the order of their numbers; a failed run counts as its level's worst.

        Leaving failures out would let a policy ask for the same hopeless point for ever.
        """
        return cls.of_trials(history, history.told, squeeze=squeeze)

    @classmethod
    def of_trials(cls, history: History, told: Sequence[TrialRecord], *, squeeze: bool = False) -> "Dataset":
        """The observations of some trials of a history."""
        return cls.of_arrays(*_observations(history, told), squeeze=squeeze)

    @classmethod
    def of_arrays(
        cls, units: Sequence[NDArray[np.floating]], values: Sequence[NDArray[np.floating]], *, squeeze: bool = False
    ) -> "Dataset":
        """The observations of each level, lowest first, from arrays whose larger values are better.

        `squeeze` makes less of values that are bad out of all proportion, see `Scale.squeezing`.
        """
        sizes = tuple(block_size(len(seen)) for seen in values)
        scales = _scales(values, squeeze=squeeze)
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
            sizes=sizes,
        )


def scales_of(
    history: History, told: Sequence[TrialRecord] | None = None, *, squeeze: bool = False
) -> tuple[Scale, ...]:
    """What standardises each level in a dataset of some trials, or of all; lowest level first.

    In single precision where that loses nothing, so that the runs of docs/results repeat to the last digit.
    """
    _, values = _observations(history, history.told if told is None else told)
    return tuple(_rounded(scale) for scale in _scales(values, squeeze=squeeze))


def _rounded(scale: Scale) -> Scale:
    """In single precision; as it is where the values lie too far from zero for their spread."""
    single = replace(scale, shift=float(np.float32(scale.shift)), unit=float(np.float32(scale.unit)))
    return single if abs(single.shift - scale.shift) <= ROUNDING * scale.unit else scale


def _scales(values: Sequence[NDArray[np.floating]], *, squeeze: bool) -> tuple[Scale, ...]:
    scale = Scale.squeezing if squeeze else Scale.linear
    return tuple(scale(np.asarray(seen, dtype=np.float64)) for seen in values)


def _observations(
    history: History, told: Sequence[TrialRecord]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Points and values of each level, lowest first, larger values better."""
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
