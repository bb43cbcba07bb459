"""Make the first queries: cheap points that fill the space, and the best of them up the ladder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bmbo.acquisition.host_search import is_unordered
from bmbo.acquisition.look_or_evaluate import Taken
from bmbo.history.host_observations import Floats, Observations
from bmbo.history.same_point import point_key
from bmbo.problem import Space

USUAL_EVALUATIONS = 40
"""Evaluations at the top that a run without a budget is expected to have."""
FEWEST_FIRST = 3
"""Points of the lowest level, however little there is to spend."""
LEAST_PER_LEVEL = 2
STEP_DOWN = 3
"""How many times fewer points a level has than the one below it."""


@dataclass(frozen=True)
class LadderStart:
    """Plan the first queries of a run.

    The lowest level has `first` times two more points than there are parameters, which count as 4 to 10. Each level
    above has a third of that, and the top has one point. If that costs more than `share` of the budget, or takes more
    than half of the trials, there are fewer points.

    Args:
        first: points of the lowest level, in units of two more than there are parameters.
        share: largest part of the budget that is spent below the top.
    """

    first: float = 1.3
    share: float = 0.06

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"the start's share of the budget must be above 0 and at most 1, got {self.share}")

    def sizes(
        self, num_params: int, costs: Sequence[float], total_cost: float | None, n_trials: int | None
    ) -> list[int]:
        """Return how many points the start has at each level."""
        top, usual = len(costs) - 1, min(max(num_params, 4), 10) + 2
        most_trials = math.inf if n_trials is None else n_trials / 2
        if top == 0:
            return [max(1, int(min(usual, 8, most_trials)))]
        if total_cost is None:
            total_cost = costs[top] * (USUAL_EVALUATIONS if n_trials is None else n_trials)
        first = round(self.first * usual)
        while True:
            below = [max(LEAST_PER_LEVEL, round(first / STEP_DOWN**level)) for level in range(top)]
            cost = sum(num * costs[level] for level, num in enumerate(below))
            if first <= FEWEST_FIRST or (cost <= self.share * total_cost and sum(below) + 1 <= most_trials):
                return [*below, 1]
            first -= 1

    def next_query(
        self, sizes: Sequence[int], observations: Observations, asked: Sequence[int], taken: Taken, seed: int
    ) -> tuple[Floats, int] | None:
        """Return the next point and level of the start; None if it is over, or waits for what is in flight.

        Args:
            sizes: what `sizes` returned.
            observations: all outcomes.
            asked: how many queries each level has had, those in flight included.
            taken: what was asked, those in flight included.
            seed: of the first points.
        """
        if asked[0] < sizes[0]:
            for unit in space_filling(observations.space, sizes[0], seed):
                if (point_key(unit), 0) not in taken:
                    return unit, 0
        for level in range(1, len(sizes)):
            if asked[level] < sizes[level]:
                unit = promoted(observations, taken, level)
                return None if unit is None else (unit, level)
        return None


def space_filling(space: Space, num: int, seed: int) -> Floats:
    """Return points [num d] that fill the space: a Latin hypercube, in which each parameter takes evenly spread values.

    SciPy's sequences would do as well, but they load for longer than everything else that a first batch needs.
    """
    rng = np.random.default_rng(seed)
    points = np.zeros((num, space.dim))
    for (_, param), block in zip(space.params, space.blocks, strict=True):
        width = 1 if is_unordered(param) else param.dim
        ranks = np.argsort(rng.random((num, width)), axis=0)
        here = (ranks + rng.random((num, width))) / num
        if is_unordered(param):
            points[:, block] = np.eye(param.dim)[np.minimum((here[:, 0] * param.dim).astype(int), param.dim - 1)]
        else:
            points[:, block] = here
    return space.snap(points)


def promoted(observations: Observations, taken: Taken, level: int) -> Floats | None:
    """Return the best point of the highest level below that was not asked at a level yet; None if there is none."""
    for below in range(level - 1, -1, -1):
        rows = np.flatnonzero((observations.level == below) & np.isfinite(observations.value))
        for row in rows[np.argsort(-observations.value[rows], kind="stable")]:
            if (point_key(observations.unit[row]), level) not in taken:
                return observations.unit[row]
    return None
