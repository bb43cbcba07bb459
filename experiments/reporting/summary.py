"""Group records by problem and method, and compute the numbers that a report shows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np

from experiments.harness.run_record import FINISHED, Record
from experiments.reporting.curves import KINDS, Curve, cost_to_reach, curve, quartiles

SHARES = (0.1, 0.25, 0.5, 1.0)
"""Where methods are compared: shares of the cost after the starts."""

RANDOM = "random"

DEFAULT = "bmbo_gp"
"""The method that all others are compared with, seed by seed."""

PACKAGE_DEFAULTS = ("screening", DEFAULT)
"""What figures show as ours: the default of the package or, where it was not run, what was the default before."""

NUM_RIVALS = 3
"""Peers that a figure shows in colour."""

OURS = ("bmbo", "screening")
"""The names of our own methods begin with one of these. All other methods are peers."""


@dataclass(frozen=True)
class Method:
    """Hold all runs of one method on one problem."""

    name: str
    records: tuple[Record, ...]
    charged: bool = True

    @cached_property
    def curves(self) -> dict[str, list[Curve]]:
        """Return a curve of each kind for every seed."""
        return {kind: [curve(record, kind, self.charged) for record in self.records] for kind in KINDS}

    def losses(self, kind: str, mark: float) -> list[float]:
        """Return the losses of all seeds at a cost."""
        return [each.at(mark) for each in self.curves[kind]]

    def seconds_per_query(self, clock: str) -> float:
        """Return the mean seconds of the method per evaluation that it asked for; `clock` is "wall" or "cpu"."""
        total, count = 0.0, 0
        for record in self.records:
            asked = {row.batch: getattr(row, clock) for row in record.evaluations if row.batch > 0}
            total += sum(asked.values())
            count += sum(row.batch > 0 for row in record.evaluations)
        return total / count if count else math.nan

    def queries(self) -> list[float]:
        """Return the mean number of evaluations at each level, without the starts."""
        levels = [row.level for record in self.records for row in record.evaluations if row.batch > 0]
        num_levels = max(len(record.header.get("costs", [])) for record in self.records)
        return [levels.count(level) / len(self.records) for level in range(num_levels)]

    def median_values(self, *, of_starts: bool = False) -> list[float]:
        """Return the median value at each level, of the method's evaluations or of its starts, or NaN."""
        num_levels = max(len(record.header["costs"]) for record in self.records)
        values: list[list[float]] = [[] for _ in range(num_levels)]
        for record in self.records:
            for row in record.evaluations:
                if row.value is not None and (row.batch == 0) == of_starts:
                    values[row.level].append(row.value)
        return [median(each) if each else math.nan for each in values]

    def faults(self) -> list[Record]:
        """Return the runs that did not finish."""
        return [record for record in self.records if record.status != FINISHED]


@dataclass(frozen=True)
class Problem:
    """Hold the runs of all methods on one problem."""

    name: str
    methods: Mapping[str, Method]
    start_cost: float
    total_cost: float
    has_optimum: bool

    def mark(self, share: float) -> float:
        """Return the cost at a share of the cost after the starts."""
        return self.start_cost + share * (self.total_cost - self.start_cost)

    def ordered(self) -> list[Method]:
        """Return the methods, the one with the smallest median loss at the end first."""
        return sorted(self.methods.values(), key=lambda each: (self.median(each.name), each.name))

    def median(self, method: str, kind: str = "observed", share: float = 1.0) -> float:
        """Return the median loss over seeds."""
        return float(quartiles(self.methods[method].curves[kind], [self.mark(share)])[1, 0])

    def peers(self) -> list[str]:
        """Return the peers, the one with the smallest median loss at the end first; random search is no peer."""
        return peers_among([each.name for each in self.ordered()])

    def best_peer(self) -> str | None:
        """Return the first of the peers, or None."""
        return next(iter(self.peers()), None)

    def wins_ties_losses(self, method: str, reference: str) -> tuple[int, int, int]:
        """Return on how many common seeds a method ends better than a reference, equal to it, and worse.

        The starts of a seed are the same for all methods that take them. So luck with the starts does not count here.
        """
        ends = [self._ends(name) for name in (method, reference)]
        pairs = [(ends[0][seed], ends[1][seed]) for seed in ends[0].keys() & ends[1].keys()]
        better, worse = sum(own < other for own, other in pairs), sum(own > other for own, other in pairs)
        return better, len(pairs) - better - worse, worse

    def _ends(self, method: str) -> dict[int, float]:
        """Return the loss of the best observed value at the end, by seed."""
        runs = self.methods[method]
        losses = runs.losses("observed", self.mark(1.0))
        return {record.task.seed: loss for record, loss in zip(runs.records, losses, strict=True)}

    def cost_ratio(self, method: str, reference: str, kind: str = "observed") -> float:
        """Return the cost at which a method reaches the final loss of a reference, over the reference's own cost.

        It is infinite if the method never reaches that loss.
        """
        target = self.median(reference, kind)
        own = cost_to_reach(self.methods[reference].curves[kind], target)
        found = cost_to_reach(self.methods[method].curves[kind], target)
        return found / own if math.isfinite(own) and found <= self.total_cost * (1 + 1e-9) else math.inf


def problems_of(records: Iterable[Record], charged: bool = True) -> list[Problem]:
    """Group records by problem. Leave out records without evaluations, and repeats, which only test determinism."""
    grouped: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        if not record.task.repeat and record.evaluations:
            grouped.setdefault(record.task.problem, {}).setdefault(record.task.method, []).append(record)
    found: list[Problem] = []
    for name, methods in sorted(grouped.items()):
        every = [record for runs in methods.values() for record in runs]
        ordered = {method: Method(method, tuple(runs), charged) for method, runs in sorted(methods.items())}
        found.append(
            Problem(
                name,
                ordered,
                start_cost=min(record.header["start_cost"] for record in every),
                # The smallest, because beyond it some methods have no values to compare with.
                total_cost=min(record.header["settings"]["total_cost"] for record in every),
                has_optimum=every[0].header["optimum"] is not None,
            )
        )
    return found


def shown_default(names: Iterable[str]) -> str | None:
    """Return the method that figures show as ours, or None if it is not there."""
    there = set(names)
    return next((name for name in PACKAGE_DEFAULTS if name in there), None)


def peers_among(names: Iterable[str]) -> list[str]:
    """Return the methods of other tools among some, in the same order."""
    return [name for name in names if not name.startswith(OURS) and name != RANDOM]


def common_methods(problems: Sequence[Problem]) -> list[str]:
    """Return the methods that have runs on all given problems."""
    names = [set(problem.methods) for problem in problems]
    return sorted(set.intersection(*names)) if names else []


def determinism(records: Iterable[Record]) -> dict[str, dict[str, bool]]:
    """Return, for each method that was run twice with one seed, whether both runs were the same, by problem."""
    records = list(records)
    first = {record.task.stem: record for record in records if not record.task.repeat}
    found: dict[str, dict[str, bool]] = {}
    for record in records:
        original = first.get(record.task.stem.removesuffix(".repeat"))
        if record.task.repeat and original is not None:
            found.setdefault(record.task.method, {})[record.task.problem] = record.same_course(original)
    return found


def grid(problem: Problem) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the costs at which a figure draws its curves, as fine as a figure can show."""
    return np.linspace(min(problem.start_cost, problem.total_cost), problem.total_cost, 200)
