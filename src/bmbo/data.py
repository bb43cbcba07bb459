"""From a history to arrays: padded, masked, standardised, larger is better. The only crossing from host to device."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from bmbo.trial import History, Trial

SMALLEST_BLOCK = 32
"""Rows of the smallest block: few enough to waste little, enough that most runs keep it at their costly levels."""


def block_size(count: int) -> int:
    """Rows kept for `count` observations of one level: powers of two, so that a run meets only a few shapes."""
    return max(SMALLEST_BLOCK, 1 << max(count - 1, 0).bit_length())


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["unit", "value", "mask", "mean", "std"],
    meta_fields=["sizes"],
)
@dataclass(frozen=True)
class Dataset:
    """Observations in one block of rows a level, the top level first, so that all rows of level >= m are a prefix.

    Attributes:
        unit: points in the unit cube; zeros where padded.
        value: standardised per level, sign turned so that larger is better; zeros where padded.
        mask: which rows are real.
        mean, std: what the standardised values of each level were shifted by and divided by, lowest level first.
        sizes: rows of each level's block, lowest level first.
    """

    unit: Float[Array, "n d"]
    value: Float[Array, " n"]
    mask: Bool[Array, " n"]
    mean: Float[Array, " m"]
    std: Float[Array, " m"]
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
    def of(cls, history: History) -> "Dataset":
        """The observations of a history, in the order of their numbers; a failed run counts as its level's worst.

        Leaving failures out would let a policy ask for the same hopeless point for ever.
        """
        return cls.of_trials(history, history.told)

    @classmethod
    def of_trials(cls, history: History, told: Sequence[Trial]) -> "Dataset":
        """The observations of some trials of a history."""
        sign = history.problem.sign
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
        dim = history.problem.space.dim
        return cls.of_arrays(
            [np.asarray(points, dtype=np.float64).reshape(-1, dim) for points in units],
            [np.asarray(seen, dtype=np.float64) for seen in values],
        )

    @classmethod
    def of_arrays(cls, units: Sequence[NDArray[np.floating]], values: Sequence[NDArray[np.floating]]) -> "Dataset":
        """The observations of each level, lowest first, from arrays whose larger values are better."""
        sizes = tuple(block_size(len(seen)) for seen in values)
        scales = [_scale(np.asarray(seen, dtype=np.float64)) for seen in values]
        dim = units[0].shape[1]
        blocks_unit: list[NDArray[np.float32]] = []
        blocks_value: list[NDArray[np.float32]] = []
        blocks_mask: list[NDArray[np.bool_]] = []
        for points, seen, (mean, std), size in reversed(list(zip(units, values, scales, sizes, strict=True))):
            missing = size - len(seen)
            standardised = (np.asarray(seen, dtype=np.float64) - mean) / std
            blocks_unit.append(np.concatenate([points, np.zeros((missing, dim))]).astype(np.float32))
            blocks_value.append(np.concatenate([standardised, np.zeros(missing)]).astype(np.float32))
            blocks_mask.append(np.arange(size) < len(seen))
        return cls(
            unit=jax.numpy.asarray(np.concatenate(blocks_unit)),
            value=jax.numpy.asarray(np.concatenate(blocks_value)),
            mask=jax.numpy.asarray(np.concatenate(blocks_mask)),
            mean=jax.numpy.asarray([mean for mean, _ in scales], dtype=np.float32),
            std=jax.numpy.asarray([std for _, std in scales], dtype=np.float32),
            sizes=sizes,
        )


def _scale(seen: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and standard deviation; a level with no data, one value or constant values keeps its scale."""
    if len(seen) == 0:
        return 0.0, 1.0
    mean, std = float(np.mean(seen)), float(np.std(seen))
    # A spread at the rounding of the values themselves is no spread.
    return mean, std if std > 1e-12 * max(1.0, abs(mean)) else 1.0
