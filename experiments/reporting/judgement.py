"""Measure what lower levels cost or save: the cost to a regret, over the cost without these levels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.harness.run_record import Record
from experiments.problems.judged_levels import ALONE, BASES, CONDITIONS, COSTLIER, name_of
from experiments.reporting.curves import Curve, cumulative_costs, curve
from experiments.reporting.paired_statistics import Interval, interval

Floats = NDArray[np.float64]

TARGETS = (0.25, 0.5, 0.75)
"""A target is the median regret of the runs without lower levels, at one of these shares of the budget."""


@dataclass(frozen=True)
class Judged:
    """Hold a run, with costs in evaluations at the top.

    Attributes:
        curve: the regret over the cost.
        at_top: the same, with the cost of evaluations at the top alone.
        budget: of the run.
        below: the share of its cost that it spent below the top.
    """

    curve: Curve
    at_top: Curve
    budget: float
    below: float

    @classmethod
    def of(cls, record: Record) -> "Judged":
        """Return the run of a record."""
        costs = record.header["costs"]
        spent = [costs[row.level] for row in record.evaluations]
        below = sum(costs[row.level] for row in record.evaluations if row.level < len(costs) - 1)
        losses = curve(record, "observed").loss
        scaled = Curve(cumulative_costs(record) / costs[-1], losses)
        at_top = np.cumsum([row.level == len(costs) - 1 for row in record.evaluations], dtype=np.float64)
        return cls(
            scaled, Curve(at_top, losses), record.header["settings"]["total_cost"] / costs[-1], below / sum(spent)
        )

    def cost_to(self, target: float) -> tuple[float, bool]:
        """Return the cost at which the target is reached, and whether it is: otherwise the cost is the budget."""
        place = self._place_of(target)
        return (self.budget, False) if place is None else (float(self.curve.cost[place]), True)

    def top_cost_to(self, target: float) -> float:
        """Return the number of evaluations at the top that reach the target; the budget if none does."""
        place = self._place_of(target)
        return self.budget if place is None else float(self.at_top.cost[place])

    def _place_of(self, target: float) -> int | None:
        inside = self.curve.cost <= self.budget * (1 + 1e-9)
        reached = np.flatnonzero((self.curve.loss <= target) & inside)
        return int(reached[0]) if len(reached) else None


Runs = Mapping[str, Mapping[int, Judged]]
"""The runs of a method, by the name of the problem and the seed."""


def targets_of(alone: Mapping[int, Judged]) -> Floats:
    """Return the targets of a base, from the runs without lower levels."""
    return np.array([np.median([run.curve.at(share * run.budget) for run in alone.values()]) for share in TARGETS])


@dataclass(frozen=True)
class Comparison:
    """Compare runs with lower levels with those without, paired by seed.

    Attributes:
        logs: the mean over the targets of the logarithms of the cost ratio, one for each pair.
        top_logs: the same, counting evaluations at the top alone: what is left if lower levels were free.
        reached: the share of targets that the runs reached with lower levels, and without.
        below: the share of the cost that was spent below the top.
    """

    logs: Floats
    top_logs: Floats
    reached: tuple[float, float]
    below: float

    @classmethod
    def of(cls, runs: Mapping[int, Judged], others: Mapping[int, Judged], targets: Floats) -> "Comparison":
        """Compare runs with others of the same seeds."""
        logs: list[float] = []
        top_logs: list[float] = []
        reached: list[tuple[bool, bool]] = []
        for seed in sorted(runs.keys() & others.keys()):
            pairs = [(runs[seed].cost_to(target), others[seed].cost_to(target)) for target in targets]
            logs.append(float(np.mean([math.log(one / other) for (one, _), (other, _) in pairs])))
            ratios = [runs[seed].top_cost_to(each) / others[seed].top_cost_to(each) for each in targets]
            top_logs.append(float(np.mean(np.log(ratios))))
            reached += [(one, other) for (_, one), (_, other) in pairs]
        shares = np.mean(reached, axis=0) if reached else np.full(2, math.nan)
        below = float(np.mean([run.below for run in runs.values()])) if runs else math.nan
        return cls(np.array(logs), np.array(top_logs), (float(shares[0]), float(shares[1])), below)

    @classmethod
    def joined(cls, parts: Sequence["Comparison"]) -> "Comparison":
        """Return all pairs of several comparisons as one."""
        reached = np.mean([part.reached for part in parts], axis=0)
        below = float(np.mean([part.below for part in parts]))
        logs, top_logs = (np.concatenate(each) for each in zip(*((p.logs, p.top_logs) for p in parts), strict=True))
        return cls(logs, top_logs, (float(reached[0]), float(reached[1])), below)

    @property
    def ratio(self) -> Interval:
        """Return the geometric mean of the ratios with its interval."""
        return _raised(interval(self.logs))

    @property
    def top_ratio(self) -> Interval:
        """Return the same, counting evaluations at the top alone."""
        return _raised(interval(self.top_logs))


def _raised(found: Interval) -> Interval:
    return Interval(*(math.exp(value) for value in (found.mean, found.low, found.high)))


def runs_of(records: Sequence[Record], method: str) -> dict[str, dict[int, Judged]]:
    """Return the runs of a method."""
    found: dict[str, dict[int, Judged]] = {}
    for record in records:
        if record.task.method == method and record.evaluations and not record.task.repeat:
            found.setdefault(record.task.problem, {})[record.task.seed] = Judged.of(record)
    return found


def compared(runs: Runs) -> dict[str, dict[str, Comparison]]:
    """Return, for each condition and base that have runs, the comparison with the runs without lower levels."""
    found: dict[str, dict[str, Comparison]] = {}
    for base in BASES:
        alone = runs.get(name_of(base, ALONE), {})
        if not alone:
            continue
        targets = targets_of(alone)
        for condition in CONDITIONS:
            told = runs.get(name_of(base, condition), {})
            if told.keys() & alone.keys():
                found.setdefault(condition, {})[base] = Comparison.of(told, alone, targets)
    return found


def against_itself(runs: Runs) -> Comparison | None:
    """Compare runs without lower levels with those of the next seed: only chance is in it, and the ratio is 1."""
    parts: list[Comparison] = []
    for base in BASES:
        alone = runs.get(name_of(base, ALONE), {})
        if len(alone) > 1:
            seeds = sorted(alone)
            moved = {seed: alone[other] for seed, other in zip(seeds, [*seeds[1:], seeds[0]], strict=True)}
            parts.append(Comparison.of(alone, moved, targets_of(alone)))
    return Comparison.joined(parts) if parts else None


def same_courses(records: Sequence[Record], method: str) -> list[tuple[str, int, bool]]:
    """Return the problem, the seed and whether the run is the same one after its costs were multiplied."""
    by_task = {(record.task.problem, record.task.seed): record for record in records if record.task.method == method}
    found: list[tuple[str, int, bool]] = []
    for base in BASES:
        for costlier, plain in COSTLIER.items():
            for problem, seed in sorted(by_task):
                other = by_task.get((name_of(base, plain), seed))
                if problem == name_of(base, costlier) and other is not None:
                    same = _course(by_task[problem, seed]) == _course(other)
                    found.append((problem, seed, same))
    return found


def _course(record: Record) -> list[tuple[int, float | None]]:
    return [(row.level, row.value) for row in record.evaluations]
