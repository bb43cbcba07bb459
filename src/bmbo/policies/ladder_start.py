"""Make the first queries: cheap points that fill the space, and the best of them up the ladder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bmbo.acquisition.feasibility import Allowed
from bmbo.acquisition.host_search import is_unordered
from bmbo.acquisition.look_or_evaluate import Taken
from bmbo.history.host_observations import Floats, Observations
from bmbo.history.same_point import point_key
from bmbo.problem import Ladder, Space
from bmbo.problem.spread_levels import has_many, spread_levels

USUAL_EVALUATIONS = 40
"""Evaluations at the top that a run without a budget is expected to have."""
FEWEST_FIRST = 3
"""Points of the lowest level, however little there is to spend."""
LEAST_PER_LEVEL = 2
MOST_TRIED = 10_000
"""Points among which one that may be run is looked for."""
STEP_DOWN = 3
"""How many times fewer points a level has than the one below it."""
FEWEST_RUNGS = 2
"""Levels below the top that the start asks, where there are many."""


@dataclass(frozen=True)
class LadderStart:
    """Plan the first queries of a run.

    The lowest level has `first` times two more points than there are parameters, which count as 4 to 10. Each level
    above has a third of that, and the top has one point. If that costs more than `share` of the budget, or takes more
    than half of the trials, there are fewer points. With a single level the start takes at most half of the budget.

    Args:
        first: points of the lowest level, in units of two more than there are parameters.
        share: largest part of the budget that is spent below the top.
    """

    first: float = 1.3
    share: float = 0.06

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"the start's share of the budget must be above 0 and at most 1, got {self.share}")

    def sizes_on(
        self, ladder: Ladder, num_params: int, costs: Sequence[float], total_cost: float | None, n_trials: int | None
    ) -> list[int]:
        """Return how many points the start has at each level; a ladder of many levels is climbed in wide steps."""
        if not has_many(ladder.num_levels):
            return self.sizes(num_params, costs, total_cost, n_trials)
        rungs = spread_levels(ladder, factor=STEP_DOWN, fewest=FEWEST_RUNGS)
        sizes = self.sizes(num_params, [costs[level] for level in rungs], total_cost, n_trials)
        at = dict(zip(rungs, sizes, strict=True))
        return [at.get(level, 0) for level in range(ladder.num_levels)]

    def sizes(
        self, num_params: int, costs: Sequence[float], total_cost: float | None, n_trials: int | None
    ) -> list[int]:
        """Return how many points the start has at each level."""
        top, usual = len(costs) - 1, min(max(num_params, 4), 10) + 2
        most_trials = math.inf if n_trials is None else n_trials / 2
        if top == 0:
            most_paid = math.inf if total_cost is None else total_cost / costs[0] / 2
            return [max(1, int(min(usual, 8, most_trials, most_paid)))]
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
        self,
        sizes: Sequence[int],
        observations: Observations,
        asked: Sequence[int],
        taken: Taken,
        seed: int,
        *,
        allowed: Allowed | None = None,
    ) -> tuple[Floats, int] | None:
        """Return the next point and level of the start; None if it is over, or waits for what is in flight.

        Args:
            sizes: what `sizes` returned.
            observations: all outcomes.
            asked: how many queries each level has had, those in flight included.
            taken: what was asked, those in flight included.
            seed: of the first points.
            allowed: says which points may be run; None if all may.
        """
        if asked[0] < sizes[0]:
            first = first_points(observations.space, sizes[0], seed)
            if allowed is not None:
                first = allowed_filling(observations.space, sizes[0], seed, allowed)
            for unit in first:
                if (point_key(unit), 0) not in taken:
                    return unit, 0
        for level in range(1, len(sizes)):
            if asked[level] < sizes[level]:
                unit = promoted(observations, taken, level)
                return None if unit is None else (unit, level)
        return None


def first_points(space: Space, num: int, seed: int) -> Floats:
    """Return points [num d] that fill the space; if a user believes in some of it, every second one is drawn there.

    The first is then the best one that is believed in.
    """
    points = space_filling(space, num, seed)
    if space.likely is not None:
        drawn = space.likely.drawn(np.random.default_rng([seed, 1]), (num + 1) // 2)
        points[::2] = space.snap(drawn)
    return points


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


def allowed_filling(space: Space, num: int, seed: int, allowed: Allowed) -> Floats:
    """Return at most `num` points that may be run, of as many that fill the space as it takes.

    Raises:
        ValueError: Among `MOST_TRIED` points none may be run.
    """
    tried = num
    while True:
        points = first_points(space, tried, seed)
        kept = points[allowed(points)]
        if len(kept) >= num or tried >= MOST_TRIED:
            break
        tried *= 4
    if len(kept) == 0:
        raise ValueError(
            f"no feasible point was found among {tried} that fill the space: does the function given as feasible "
            "allow anything? Make the space smaller, so that most of it is feasible"
        )
    return kept[:num]


def promoted(observations: Observations, taken: Taken, level: int) -> Floats | None:
    """Return the best point of the highest level below that was not asked at a level yet; None if there is none."""
    for below in range(level - 1, -1, -1):
        rows = np.flatnonzero((observations.level == below) & np.isfinite(observations.value))
        for row in rows[np.argsort(-observations.value[rows], kind="stable")]:
            if (point_key(observations.unit[row]), level) not in taken:
                return observations.unit[row]
    return None
