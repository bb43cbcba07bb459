"""Compare workers with one at a time: regrets at equal cost and at equal simulated wall time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from experiments.harness.run_record import Record
from experiments.harness.run_settings import Settings
from experiments.problems.reference_values import Reference
from experiments.reporting.curves import Curve, cumulative_costs, observed_values
from experiments.reporting.paired_statistics import LARGEST, WITHOUT_VALUE, best_of

Floats = NDArray[np.float64]

MARKS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0)
"""Where regrets are compared, in evaluations at the top: as costs, and as the wall time that one of them takes."""


def end_times(record: Record) -> Floats:
    """Return when each evaluation ended, in units of cost: a job takes as long as it costs.

    Jobs of a batch begin together, when the last one of the batch before has ended. Raise `ValueError` if there are
    common starts, which are not part of any schedule.
    """
    costs, rows = record.header["costs"], record.evaluations
    if any(row.batch == 0 for row in rows):
        raise ValueError(f"the run of {record.task} has common starts; simulated times need runs without")
    if rows and rows[0].ended is not None:
        return np.array([math.nan if row.ended is None else row.ended for row in rows])
    found: list[float] = []
    began, batch = 0.0, 0
    for row in rows:
        if row.batch != batch:
            began, batch = max(found, default=0.0), row.batch
        found.append(began + costs[row.level])
    return np.array(found)


def by_end(record: Record) -> tuple[Record, Floats]:
    """Return a record with its evaluations in the order in which they ended, and the times."""
    times = end_times(record)
    order = np.argsort(times, kind="stable")
    return replace(record, evaluations=tuple(record.evaluations[place] for place in order)), times[order]


@dataclass(frozen=True)
class Timed:
    """Hold a run as two curves of the normalised regret, in units of evaluations at the top.

    Attributes:
        over_cost: the regret over the cost.
        over_time: the regret over the simulated wall time.
        total_cost: what the run may cost.
    """

    over_cost: Curve
    over_time: Curve
    total_cost: float

    @classmethod
    def of(cls, record: Record, reference: Reference, best: float) -> "Timed":
        """Return the curves of a record."""
        unit = record.header["costs"][-1]
        total = Settings(**record.header["settings"]).total_cost
        inside = cumulative_costs(record) <= total * (1 + 1e-9)
        # What lies beyond the total cost does not count.
        counted = replace(record, evaluations=record.evaluations[: int(inside.sum())])
        ended, times = by_end(counted)
        over_cost = Curve(cumulative_costs(counted) / unit, _regrets(counted, reference, best))
        return cls(over_cost, Curve(times / unit, _regrets(ended, reference, best)), total / unit)

    def at(self, marks: Sequence[float]) -> Floats:
        """Return the regrets that count at costs and at times: [2 marks]."""
        found = np.array([[curve.at(mark) for mark in marks] for curve in (self.over_cost, self.over_time)])
        return np.minimum(np.where(np.isinf(found), WITHOUT_VALUE, found), LARGEST)

    def time_to(self, target: float) -> float:
        """Return the wall time at which the regret is at most the target, or infinity if it never is."""
        reached = np.flatnonzero(self.over_time.loss <= target)
        return float(self.over_time.cost[reached[0]]) if len(reached) else math.inf


def _regrets(record: Record, reference: Reference, best: float) -> Floats:
    values = observed_values(record)
    return np.array([math.inf if value is None else reference.regret(value, best) for value in values])


Schedules = Mapping[str, Mapping[str, Mapping[int, Timed]]]
"""Maps a schedule, a problem and a seed to the run of one method."""


def collect(
    records: Mapping[str, Sequence[Record]], references: Mapping[str, Reference], method: str
) -> dict[str, dict[str, dict[int, Timed]]]:
    """Return the runs of a method by their schedule. All schedules share the best known value of a problem."""
    own = {
        name: [r for r in each if r.task.method == method and r.evaluations and not r.task.repeat]
        for name, each in records.items()
    }
    by_problem: dict[str, list[Record]] = {}
    for each in own.values():
        for record in each:
            by_problem.setdefault(record.task.problem, []).append(record)
    best = {
        problem: best_of(found, references[problem], found[0].header["maximise"])
        for problem, found in by_problem.items()
        if problem in references
    }
    runs: dict[str, dict[str, dict[int, Timed]]] = {}
    for name, each in own.items():
        for record in each:
            problem = record.task.problem
            if problem in best:
                timed = Timed.of(record, references[problem], best[problem])
                runs.setdefault(name, {}).setdefault(problem, {})[record.task.seed] = timed
    return runs


def common_seeds(runs: Schedules, problem: str) -> list[int]:
    """Return the seeds of a problem that have runs of every schedule."""
    return sorted(set.intersection(*(set(problems.get(problem, {})) for problems in runs.values())))


def common_problems(runs: Schedules) -> list[str]:
    """Return the problems that have a seed with runs of every schedule."""
    names = {problem for problems in runs.values() for problem in problems}
    return sorted(problem for problem in names if common_seeds(runs, problem))


def mean_regrets(runs: Schedules, schedule: str, problems: Sequence[str]) -> Floats:
    """Return the regrets at the marks as means over the seeds that all schedules have: [problems 2 marks]."""
    found = [
        np.mean([runs[schedule][problem][seed].at(MARKS) for seed in common_seeds(runs, problem)], axis=0)
        for problem in problems
    ]
    return np.array(found).reshape(len(found), 2, len(MARKS))


def time_ratios(runs: Schedules, schedule: str, other: str, share: float) -> list[float]:
    """Return, for each problem and common seed, the wall time to a regret over the other's time to it.

    The regret is the other's at a share of its cost. A ratio is infinite if the run never has that regret. Pairs in
    which the other has no value yet are left out.
    """
    found: list[float] = []
    for problem in sorted(runs[schedule].keys() & runs[other].keys()):
        own, theirs = runs[schedule][problem], runs[other][problem]
        for seed in sorted(own.keys() & theirs.keys()):
            target = theirs[seed].over_cost.at(share * theirs[seed].total_cost)
            if math.isfinite(target):
                found.append(own[seed].time_to(target) / theirs[seed].time_to(target))
    return found
