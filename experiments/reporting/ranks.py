"""Compute average ranks of methods over problems, with intervals and tests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.reporting.curves import ENDLESS

Floats = NDArray[np.float64]

Losses = Mapping[str, Mapping[str, Sequence[float]]]
"""Maps a problem and a method to the losses of all seeds."""

NUM_RESAMPLES = 2000
"""With so many, the ends of a 95 % interval are stable in the digits that are shown."""

FEWEST_PROBLEMS = 5
"""With fewer problems, Friedman's test and Nemenyi's distance mean little."""


@dataclass(frozen=True)
class Ranks:
    """Hold the average rank of each method with a 95 % bootstrap interval; rank 1 is the best.

    Attributes:
        methods: the names of the methods.
        mean: the average ranks [methods].
        low: the lower ends of the intervals [methods].
        high: the upper ends of the intervals [methods].
        num_problems: the number of problems.
        p_value: the p-value of Friedman's test that all methods are equal; None with too few problems or methods.
        distance: the difference at which two average ranks differ (Nemenyi, 5 %); None in the same cases.
    """

    methods: tuple[str, ...]
    mean: Floats
    low: Floats
    high: Floats
    num_problems: int
    p_value: float | None = None
    distance: float | None = None


def average_ranks(losses: Losses, methods: Sequence[str], seed: int = 0) -> Ranks:
    """Rank the methods by their median loss on each problem, and return the averages.

    The bootstrap draws problems, and seeds for each method and problem, so the intervals cover both sources of chance.
    Methods may have different numbers of seeds.
    """
    problems = sorted(losses)
    table: list[list[Floats]] = [
        [np.minimum(np.asarray(losses[problem][method], np.float64), ENDLESS) for method in methods]
        for problem in problems
    ]
    ranks = _ranks(np.array([[np.median(cell) for cell in row] for row in table]))
    resampled = _resampled(table, np.random.default_rng(seed))
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    p_value, distance = _tests(ranks)
    return Ranks(tuple(methods), ranks.mean(axis=0), low, high, len(problems), p_value, distance)


def _resampled(table: Sequence[Sequence[Floats]], generator: np.random.Generator) -> Floats:
    """Return the average ranks of resampled data: [resamples methods]."""
    rows: list[Floats] = []
    for row in table:
        cells: list[Floats] = []
        for cell in row:
            drawn = cell[generator.integers(len(cell), size=(NUM_RESAMPLES, len(cell)))]
            cells.append(np.median(drawn, axis=1))
        rows.append(_ranks(np.stack(cells, axis=1)))
    ranks = np.stack(rows)
    chosen = generator.integers(len(table), size=(len(table), NUM_RESAMPLES))
    return ranks[chosen, np.arange(NUM_RESAMPLES)[None, :]].mean(axis=0)


def _ranks(medians: Floats) -> Floats:
    return np.asarray(stats.rankdata(medians, axis=1), np.float64)


def _tests(ranks: Floats) -> tuple[float | None, float | None]:
    num_problems, num_methods = ranks.shape
    if num_problems < FEWEST_PROBLEMS or num_methods < 3:
        return None, None
    p_value = float(stats.friedmanchisquare(*ranks.T).pvalue)
    return p_value, critical_distance(num_methods, num_problems)


def critical_distance(num_methods: int, num_problems: int) -> float:
    """Return Nemenyi's distance at 5 % (Demsar 2006, Statistical comparisons of classifiers over many data sets)."""
    quantile = float(stats.studentized_range.ppf(0.95, num_methods, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(num_methods * (num_methods + 1) / (6 * num_problems))
