"""Compare methods on many problems: normalised regrets, average ranks, paired differences, and costs to a target.

The unit of chance is the problem: seeds are averaged inside a problem, and intervals come from drawing problems again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from experiments.harness.run_record import Record
from experiments.problems.reference_values import Reference
from experiments.reporting.curves import Curve, cumulative_costs, observed_values

Floats = NDArray[np.float64]

SHARES = (0.1, 0.25, 0.5, 1.0)
"""Where methods are compared: shares of the total cost."""

WITHOUT_VALUE = 1.0
"""The regret before the first value at the top: that of a random configuration, which could be had at any time."""

LARGEST = 2.0
"""Regrets are cut here, so that one wild problem does not decide an average."""

SAME = 1e-3
"""Mean regrets of two methods that differ by less than this count as the same."""

DIGITS = 9
"""Regrets that agree to so many decimals have the same rank. Records have ten significant digits."""

NUM_RESAMPLES = 4000

SEED = 0
"""Seed of the bootstrap. It is fixed, so that the same records give the same page."""


@dataclass(frozen=True)
class Interval:
    """Hold a mean over problems with the ends of its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


def interval(values: Floats) -> Interval:
    """Return the mean of one value per problem and its interval. All are NaN without values."""
    if not len(values):
        return Interval(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(SEED).integers(len(values), size=(NUM_RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return Interval(float(values.mean()), float(low), float(high))


@dataclass(frozen=True)
class Scored:
    """Hold a run as a curve of the normalised regret over the cost.

    Attributes:
        curve: the regret, not cut; infinite before the first value at the top.
        total_cost: the cost that the run may have.
        cpu: the CPU seconds of the method, and its number of queries.
    """

    curve: Curve
    total_cost: float
    cpu: tuple[float, int]

    @cached_property
    def regrets(self) -> Floats:
        """Return the regret that counts, at the shares of the total cost: [shares]."""
        found = np.array([self.curve.at(share * self.total_cost) for share in SHARES])
        return np.minimum(np.where(np.isinf(found), WITHOUT_VALUE, found), LARGEST)

    def final(self) -> float:
        """Return the regret at the total cost, not cut."""
        return self.curve.at(self.total_cost)

    def cost_to(self, target: float) -> float:
        """Return the cost at which the regret is at most the target, or infinity if it never is."""
        inside = self.curve.cost <= self.total_cost * (1 + 1e-9)
        reached = np.flatnonzero((self.curve.loss <= target) & inside)
        return float(self.curve.cost[reached[0]]) if len(reached) else math.inf


Runs = Mapping[str, Mapping[str, Mapping[int, Scored]]]
"""Maps a problem, a method and a seed to the run."""


def best_of(records: Iterable[Record], reference: Reference, maximise: bool) -> float:
    """Return the best known value: the better of the table's and of what any record evaluated at the top."""
    sign, best = (1.0 if maximise else -1.0), reference.best
    for record in records:
        top = len(record.header["costs"]) - 1
        for row in record.evaluations:
            exact = row.value if row.top is None else row.top
            if row.level == top and exact is not None and sign * exact > sign * best:
                best = exact
    return best


def scored(record: Record, reference: Reference, best: float) -> Scored:
    """Return a run on the scale of its problem."""
    values = [math.inf if v is None else reference.regret(v, best) for v in observed_values(record)]
    asked = {row.batch: row.cpu for row in record.evaluations if row.batch > 0}
    queries = sum(row.batch > 0 for row in record.evaluations)
    total = float(record.header["settings"]["total_cost"])
    return Scored(Curve(cumulative_costs(record), np.array(values)), total, (sum(asked.values()), queries))


def mean_regrets(runs: Runs, method: str) -> Floats:
    """Return the regrets of a method as means over its seeds: [problems shares]."""
    rows = [np.mean([run.regrets for run in methods[method].values()], axis=0) for methods in runs.values()]
    return np.array(rows).reshape(len(rows), len(SHARES))


def ranks(runs: Runs, methods: Sequence[str]) -> Floats:
    """Return the ranks of the methods by their mean regrets, 1 is best: [problems methods shares]."""
    regrets = np.stack([mean_regrets(runs, method) for method in methods], axis=1)
    return np.asarray(rankdata(np.round(regrets, DIGITS), axis=1), np.float64)


@dataclass(frozen=True)
class Paired:
    """Compare a method with another one, seed by seed.

    Attributes:
        differences: the regret of the method minus that of the other, as means over common seeds: [problems shares].
        ratios: for each problem and common seed, the cost at which the method reaches the other's final regret, over
            the cost at which the other did; infinite if the method never does.
    """

    differences: Floats
    ratios: Floats

    def counts(self, share: int = -1) -> tuple[int, int, int]:
        """Return on how many problems the method is better, the same, and worse."""
        found = self.differences[:, share]
        better, worse = int(np.sum(found < -SAME)), int(np.sum(found > SAME))
        return better, len(found) - better - worse, worse

    def median_ratio(self) -> float:
        """Return the median ratio of costs; a target that is never reached counts as infinite."""
        # Not np.median, because the mean of two infinite values would be NaN with a warning.
        return float(np.quantile(self.ratios, 0.5, method="lower")) if len(self.ratios) else math.nan

    def share_never(self) -> float:
        """Return the share of the pairs in which the method never reaches the other's final regret."""
        return float(np.mean(np.isinf(self.ratios))) if len(self.ratios) else math.nan


def paired(runs: Runs, method: str, other: str) -> Paired:
    """Compare two methods on the problems and seeds that both have."""
    differences: list[Floats] = []
    ratios: list[float] = []
    for methods in runs.values():
        own, theirs = methods.get(method, {}), methods.get(other, {})
        seeds = sorted(own.keys() & theirs.keys())
        if not seeds:
            continue
        differences.append(np.mean([own[seed].regrets - theirs[seed].regrets for seed in seeds], axis=0))
        ratios += [_ratio(own[seed], theirs[seed]) for seed in seeds]
    return Paired(np.array(differences).reshape(len(differences), len(SHARES)), np.array(ratios))


def _ratio(own: Scored, other: Scored) -> float:
    """Return the ratio of the costs to the other's final regret."""
    target = other.final()
    # A run without any value at the top has reached nothing with its whole cost. Any value is better.
    reached = other.total_cost if math.isinf(target) else other.cost_to(target)
    found = own.cost_to(np.finfo(np.float64).max if math.isinf(target) else target)
    return found / reached


def seconds_per_query(runs: Runs, method: str) -> float:
    """Return the CPU seconds of a method per query, as the mean over problems."""
    found: list[float] = []
    for methods in runs.values():
        seconds, queries = (sum(each) for each in zip(*(run.cpu for run in methods[method].values()), strict=True))
        found.append(seconds / queries if queries else math.nan)
    return float(np.nanmean(found)) if np.isfinite(found).any() else math.nan
