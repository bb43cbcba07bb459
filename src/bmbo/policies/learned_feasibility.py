"""Learn from a history what decides whether a value counts: constraints, failures, and what may be run at all."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bmbo.acquisition.feasibility import Feasibility, Limit, Success
from bmbo.history import History
from bmbo.history.host_observations import Floats, Observations
from bmbo.problem import Problem
from bmbo.protocols import ExactSurrogate, WeightedPosteriors


@dataclass(frozen=True)
class Carried:
    """Hold the caches of several fits."""

    objective: Any = None
    limits: tuple[Any, ...] = ()
    success: Any = None


def allowed(problem: Problem, points: Floats) -> Any:
    """Return which points [q d] may be run, as booleans [q]."""
    return np.array([problem.allows(tuple(float(u) for u in point)) for point in points], np.bool_)


def learned(
    surrogate: ExactSurrogate, history: History, observations: Observations, carry: Any, *, learns_failures: bool
) -> tuple[WeightedPosteriors, Feasibility | None, Any]:
    """Return what is learned of the objective and of all that decides whether a value counts, and a cache.

    Args:
        surrogate: learns each of them by a model of its own.
        history: all that is known.
        observations: of the objective in this history, with failures.
        carry: the cache of an earlier call; None is always allowed.
        learns_failures: whether failures are learned as such; if not, they have the worst value.
    """
    problem = history.problem
    fails = ~np.isfinite(observations.value)
    learns_failures = learns_failures and bool(fails.any())
    if not problem.constraints and problem.feasible is None and not learns_failures:
        posteriors, carry = surrogate.fit(observations, carry)
        return posteriors, None, carry
    known = carry if isinstance(carry, Carried) else Carried(carry)
    success, success_carry = None, known.success
    if learns_failures:
        labels = replace(
            observations, num_levels=1, level=np.zeros_like(observations.level), value=(~fails).astype(np.float64)
        )
        fitted, success_carry = surrogate.fit(labels, known.success)
        success = Success(fitted)
    values = observations.rows(np.flatnonzero(~fails)) if learns_failures or problem.constraints else observations
    limits, limit_carries = _limits(surrogate, history, values, known.limits)
    if success is not None:
        values = with_expected_failures(observations, fails, success)
    posteriors, objective_carry = surrogate.fit(values, known.objective)
    rule = None if problem.feasible is None else lambda points: allowed(problem, points)
    feasibility = Feasibility(problem.ladder.top, limits, success, rule)
    return posteriors, feasibility, Carried(objective_carry, limit_carries, success_carry)


def with_expected_failures(observations: Observations, fails: Any, success: Success) -> Observations:
    """Return the outcomes without failures, but with a middling value for those that the other outcomes explain.

    Without any value, a model goes on into a region that always fails as it came, and promises much there. Where
    failures have nothing to do with the point, nothing is added.
    """
    values = observations.value.copy()
    expected = np.zeros_like(fails)
    expected[fails] = success.log_probability(observations.unit[fails]) < math.log(0.5)
    for level in np.unique(observations.level[expected]):
        here = observations.level == level
        known = values[here & ~fails]
        values[here & expected] = np.median(known if len(known) else values[~fails])
    return replace(observations, value=values).rows(np.flatnonzero(~fails | expected))


def _limits(
    surrogate: ExactSurrogate, history: History, values: Observations, carries: tuple[Any, ...]
) -> tuple[tuple[Limit, ...], tuple[Any, ...]]:
    """Return what is learned of each constraint, and a cache for each.

    A trial without measured values, which only Optuna can have added, counts as one that keeps no constraint.
    """
    done = [trial for trial in history.learned_from if trial.value is not None]
    limits: list[Limit] = []
    caches: list[Any] = []
    for place in range(len(history.problem.constraints)):
        kept = np.array([-history.violations(trial)[place] for trial in done], np.float64)
        cache = carries[place] if place < len(carries) else None
        fitted, cache = surrogate.fit(replace(values, value=np.where(np.isfinite(kept), kept, np.nan)), cache)
        limits.append(Limit.of(fitted))
        caches.append(cache)
    return tuple(limits), tuple(caches)
