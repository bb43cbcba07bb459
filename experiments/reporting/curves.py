"""From records to curves: what was reached at which cost."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.harness.run_record import Evaluation, Record
from experiments.harness.settings import Settings

Floats = NDArray[np.float64]

KINDS = {
    "observed": "best observed at the top",
    "recommended": "true value of the recommendation",
    "paper": "best of all queried, re-evaluated at the top",
}
"""The three curves of a run."""

ROUNDING = 1e-10
"""Values are recorded to ten digits: a smaller loss is zero."""

ENDLESS = 1e200
"""In place of an infinite loss, where one is averaged."""


@dataclass(frozen=True)
class Curve:
    """A loss that falls in steps: what is lost against the optimum, or the value itself with its sign turned."""

    cost: Floats
    loss: Floats

    def at(self, mark: float) -> float:
        """The loss at a cost; infinite before there is any."""
        place = int(np.searchsorted(self.cost, mark * (1 + 1e-12), side="right")) - 1
        return math.inf if place < 0 else float(self.loss[place])


def cumulative_costs(record: Record, charged: bool = True) -> Floats:
    """The cost after each evaluation; a method that took no starts is charged theirs, unless that is unwanted."""
    costs = record.header["costs"]
    first = record.header["start_cost"] if charged and not record.header["takes_starts"] else 0.0
    return first + np.cumsum([costs[evaluation.level] for evaluation in record.evaluations], dtype=np.float64)


def curve(record: Record, kind: str, charged: bool = True) -> Curve:
    """One of the three curves of a run; it holds its last value to the end, also where the run crashed."""
    if not record.evaluations:
        return Curve(np.zeros(0), np.zeros(0))
    top = len(record.header["costs"]) - 1
    values: dict[str, Callable[[Evaluation], float | None]] = {
        "observed": lambda evaluation: evaluation.value if evaluation.level == top else None,
        "recommended": lambda evaluation: evaluation.recommended,
        "paper": lambda evaluation: evaluation.top,
    }
    if kind == "paper" and not Settings(**record.header["settings"]).judged:
        return Curve(np.zeros(0), np.zeros(0))
    losses = np.array([_loss(record, values[kind](evaluation)) for evaluation in record.evaluations])
    if kind == "recommended":
        # A recommendation may get worse; it stands until the next.
        known = np.where(np.isfinite(losses), np.arange(len(losses)), -1)
        last = np.maximum.accumulate(known)
        losses = np.where(last >= 0, losses[np.maximum(last, 0)], math.inf)
    else:
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
    """First quartile, median and third quartile of the losses at each cost: [3 marks]."""
    losses = np.array([[each.at(mark) for mark in marks] for each in curves])
    # A run without a value has an infinite loss, and what lies between it and another is infinite too.
    found = np.quantile(np.minimum(losses, ENDLESS), [0.25, 0.5, 0.75], axis=0)
    return np.where(found > ENDLESS / 1e6, math.inf, found)


def reached(curves: Sequence[Curve], target: float) -> float:
    """The cost at which the median loss first is at most the target; infinite where it never is."""
    marks = np.unique(np.concatenate([each.cost for each in curves]))
    medians = quartiles(curves, marks)[1]
    below = np.flatnonzero(medians <= target)
    return float(marks[below[0]]) if len(below) else math.inf
