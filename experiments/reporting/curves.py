"""Turn records into curves of the loss over the cost."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.harness.run_record import Record
from experiments.harness.run_settings import Settings

Floats = NDArray[np.float64]

KINDS = {
    "observed": "best observed at the top",
    "recommended": "true value of the recommendation",
    "paper": "best of all queried, re-evaluated at the top",
}
"""The three kinds of curve of a run."""

ROUNDING = 1e-10
"""Values are recorded with ten digits, so a smaller loss counts as zero."""

ENDLESS = 1e200
"""Stands for an infinite loss in averages."""


@dataclass(frozen=True)
class Curve:
    """Hold the loss at each cost: the distance to the optimum or, without one, the value with its sign turned."""

    cost: Floats
    loss: Floats

    def at(self, mark: float) -> float:
        """Return the loss at a cost. It is infinite before the first value."""
        place = int(np.searchsorted(self.cost, mark * (1 + 1e-12), side="right")) - 1
        return math.inf if place < 0 else float(self.loss[place])


def cumulative_costs(record: Record, charged: bool = True) -> Floats:
    """Return the cost after each evaluation. A method without starts is charged their cost if `charged` is true."""
    costs = record.header["costs"]
    first = record.header["start_cost"] if charged and not record.header["takes_starts"] else 0.0
    return first + np.cumsum([costs[evaluation.level] for evaluation in record.evaluations], dtype=np.float64)


def observed_values(record: Record) -> list[float | None]:
    """Return, after each evaluation, the value without noise of the point with the best value observed at the top.

    It is None before the first value. A user sees values with noise and chooses by them, but gets the one without.
    """
    top, sign = len(record.header["costs"]) - 1, 1.0 if record.header["maximise"] else -1.0
    best, exact, found = -math.inf, None, list[float | None]()
    for row in record.evaluations:
        if row.level == top and row.value is not None and sign * row.value > best:
            best, exact = sign * row.value, row.value if row.top is None else row.top
        found.append(exact)
    return found


def curve(record: Record, kind: str, charged: bool = True) -> Curve:
    """Return one of the three curves of a run. It keeps its last value to the end, even if the run crashed."""
    if not record.evaluations:
        return Curve(np.zeros(0), np.zeros(0))
    if kind == "paper" and not Settings(**record.header["settings"]).judged:
        return Curve(np.zeros(0), np.zeros(0))
    values: dict[str, Callable[[], list[float | None]]] = {
        "observed": lambda: observed_values(record),
        "recommended": lambda: [evaluation.recommended for evaluation in record.evaluations],
        "paper": lambda: [evaluation.top for evaluation in record.evaluations],
    }
    losses = np.array([_loss(record, value) for value in values[kind]()])
    if kind == "recommended":
        # A recommendation can get worse. It holds until the next one.
        known = np.where(np.isfinite(losses), np.arange(len(losses)), -1)
        last = np.maximum.accumulate(known)
        losses = np.where(last >= 0, losses[np.maximum(last, 0)], math.inf)
    elif kind == "paper":
        losses = np.minimum.accumulate(losses)
    return Curve(cumulative_costs(record, charged), losses)


def _loss(record: Record, value: float | None) -> float:
    if value is None:
        return math.inf
    sign, optimum = (1.0 if record.header["maximise"] else -1.0), record.header["optimum"]
    if optimum is None:
        return -sign * value
    loss = sign * (optimum - value)
    return 0.0 if abs(loss) < ROUNDING * max(1.0, abs(optimum)) else loss


def quartiles(curves: Sequence[Curve], marks: Iterable[float]) -> Floats:
    """Return the first quartile, the median and the third quartile of the losses at each cost: [3 marks]."""
    losses = np.array([[each.at(mark) for mark in marks] for each in curves])
    # A run without a value has an infinite loss. A quantile between it and a finite loss is infinite too.
    found = np.quantile(np.minimum(losses, ENDLESS), [0.25, 0.5, 0.75], axis=0)
    return np.where(found > ENDLESS / 1e6, math.inf, found)


def cost_to_reach(curves: Sequence[Curve], target: float) -> float:
    """Return the cost at which the median loss reaches the target, or infinity if it never does."""
    marks = np.unique(np.concatenate([each.cost for each in curves]))
    medians = quartiles(curves, marks)[1]
    below = np.flatnonzero(medians <= target)
    return float(marks[below[0]]) if len(below) else math.inf
