"""Read from runs of the same configuration how noisy values are, and how well the mean of a configuration is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import chdtri

from bmbo.history.same_point import same_configuration
from bmbo.history.trial_records import History, TrialRecord

OUTSIDE = 0.025
"""Probability on either side of an interval."""


@dataclass(frozen=True)
class RepeatedNoise:
    """Hold the noise of one level as repeated runs show it.

    Attributes:
        configurations: how many were run more than once.
        freedom: how many runs came after the first ones of these: the degrees of freedom.
        deviation: of a single value from the mean of its configuration.
        low: lower end of the interval that holds this deviation with a probability of 95 %, if the noise is Gaussian.
        high: its upper end.
    """

    configurations: int
    freedom: int
    deviation: float
    low: float
    high: float


def runs_of(history: History, units: Sequence[tuple[float, ...]], level: int) -> tuple[TrialRecord, ...]:
    """Return the trials with a value at a level whose configuration is one of the points."""
    return tuple(
        trial
        for trial in history.done
        if trial.query.level == level and any(same_configuration(trial.query.unit, unit) for unit in units)
    )


def repeated_noise(history: History, level: int) -> RepeatedNoise | None:
    """Return the noise of a level, from all configurations that were run there twice or more; None if there are none.

    All of them are taken to be equally noisy.
    """
    values: dict[tuple[float, ...], list[float]] = {}
    for trial in history.done:
        if trial.query.level == level and trial.value is not None:
            values.setdefault(trial.query.unit, []).append(trial.value)
    repeated = [each for each in values.values() if len(each) > 1]
    freedom = sum(len(each) - 1 for each in repeated)
    if not freedom:
        return None
    squares = math.fsum((value - math.fsum(each) / len(each)) ** 2 for each in repeated for value in each)
    deviation = math.sqrt(squares / freedom)
    low, high = (deviation * math.sqrt(freedom / float(chdtri(freedom, beyond))) for beyond in (OUTSIDE, 1.0 - OUTSIDE))
    return RepeatedNoise(len(repeated), freedom, deviation, low, high)


def standard_error(history: History, runs: Sequence[TrialRecord]) -> float | None:
    """Return the standard error of the mean of runs of one configuration; None if nothing was run twice there.

    The noise is that of all repeated runs of the level, because two or three runs say little about it.
    """
    noise = repeated_noise(history, runs[0].query.level) if runs else None
    return None if noise is None else noise.deviation / math.sqrt(len(runs))
