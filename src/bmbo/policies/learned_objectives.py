"""Learn several objectives from a history, one by one, and by how much a point is expected to enlarge their front."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bmbo.acquisition.fading_prior import Weigh
from bmbo.acquisition.front_improvement import FrontImprovement, directions_of
from bmbo.acquisition.look_or_evaluate import Belief
from bmbo.history import History
from bmbo.history.host_observations import Floats, Observations
from bmbo.history.pareto_front import orders
from bmbo.policies.learned_feasibility import learned, with_expected_failures
from bmbo.protocols import ExactSurrogate, WeightedPosteriors

NUM_DIRECTIONS = 16
"""Directions along which the front is measured. They are others for each batch."""


@dataclass(frozen=True)
class CarriedObjectives:
    """Hold the caches of the fits of all objectives."""

    first: Any = None
    further: tuple[Any, ...] = ()


def observations_of(history: History) -> Observations:
    """Return the outcomes of a history; of several objectives, a value is the better the earlier one goes on with it.

    These values order the outcomes of one level, for the start and for beliefs; models learn each objective itself.
    """
    if not history.problem.objectives:
        return Observations.of(history)
    each = [Observations.of(history.of_objective(place)) for place in range(history.problem.num_objectives)]
    values = np.stack([own.value for own in each], axis=1)
    height = np.full(len(values), np.nan)
    for level in range(each[0].num_levels):
        rows = np.flatnonzero((each[0].level == level) & np.isfinite(values).all(1))
        height[rows[orders(values[rows])]] = -np.arange(len(rows), dtype=np.float64)
    return replace(each[0], value=height)


def learned_front(
    surrogate: ExactSurrogate,
    history: History,
    carry: Any,
    rng: np.random.Generator,
    weigh: Weigh | None,
    *,
    learns_failures: bool,
    num_directions: int = NUM_DIRECTIONS,
) -> tuple[Belief, Any]:
    """Return what is believed of several objectives, and a cache.

    Args:
        surrogate: learns each of them by a model of its own.
        history: all that is known.
        carry: the cache of an earlier call; None is always allowed.
        rng: of the directions along which the front is measured.
        weigh: how far a user's prior trusts points.
        learns_failures: whether failures are learned as such; if not, they have the worst value.
        num_directions: along which the front is measured.
    """
    known = carry if isinstance(carry, CarriedObjectives) else CarriedObjectives()
    one = history.of_objective(0)
    seen = Observations.of(one)
    first, feasibility, first_carry = learned(surrogate, one, seen, known.first, learns_failures=learns_failures)
    fails = ~np.isfinite(seen.value)
    objectives: list[WeightedPosteriors] = [first]
    carries: list[Any] = []
    for place in range(1, history.problem.num_objectives):
        values = Observations.of(history.of_objective(place))
        if feasibility is not None and feasibility.success is not None:
            values = with_expected_failures(values, fails, feasibility.success)
        elif history.problem.constraints:
            values = values.rows(np.flatnonzero(~fails))
        cache = known.further[place - 1] if place <= len(known.further) else None
        fitted, cache = surrogate.fit(values, cache)
        objectives.append(fitted)
        carries.append(cache)
    given = tuple(None if each.reference is None else each.sign * each.reference for each in history.problem.objectives)
    directions: Floats = directions_of(num_directions, len(objectives), rng)
    top = seen.top
    front = FrontImprovement.of(tuple(objectives), top, directions, given, feasibility)
    return Belief(first, top, (), feasibility, weigh, front), CarriedObjectives(first_carry, tuple(carries))
