"""Screen cheaply, then evaluate at the top or look more cheaply first, with exact moments on the host.

Nothing is compiled, and all random choices are NumPy's.
"""

import logging
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bmbo.acquisition.look_or_evaluate import Belief, LookOrEvaluate, Taken
from bmbo.history import History, Query
from bmbo.history.host_observations import Floats, Observations
from bmbo.history.same_point import point_key
from bmbo.policies.ladder_start import LadderStart
from bmbo.problem import Problem
from bmbo.protocols import Choice, ExactSurrogate, Offer, Recommendation

logger = logging.getLogger("bmbo")

FEWEST_VALUES = 3
"""Values that a model is fitted to. Before, queries after the start are random."""
RANDOM_TRIES = 64
"""Random points that are drawn to find one that was not asked yet: a small space soon has few of them."""
ROUNDING = 1e-9
"""Share of a cost that may be missing because sums of costs are rounded."""


@dataclass(frozen=True)
class Screening:
    """Suggest by a cheap start, one exact model of all levels, and the rule of `LookOrEvaluate`.

    Args:
        surrogate: what learns exact moments.
        choose: the rule for points and levels.
        start: how the run begins.
        total_cost: what all trials may cost together; None is no limit.
        n_trials: how many trials there may be at the end; None is no limit.
    """

    surrogate: ExactSurrogate
    choose: LookOrEvaluate = field(default_factory=LookOrEvaluate)
    start: LadderStart = field(default_factory=LadderStart)
    total_cost: float | None = None
    n_trials: int | None = None

    def within(self, total_cost: float | None, n_trials: int | None) -> "Screening":
        """See `Budgeted`."""
        return replace(self, total_cost=total_cost, n_trials=n_trials)

    @property
    def recommends_evaluated(self) -> bool:
        """See `SelfConfirming`."""
        return True

    def start_sizes(self, problem: Problem) -> tuple[int, ...]:
        """See `Starting`."""
        return tuple(self.start.sizes(len(problem.space.params), problem.ladder.costs, self.total_cost, self.n_trials))

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`. Without enough budget for an evaluation at the top, there are no queries."""
        choices, carry = self.explain(seed, history, num, carry)
        return [choice.query for choice in choices], carry

    def explain(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Choice], Any]:
        """See `Explaining`."""
        with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would only wait for each other
            batch = _Batch(self, seed, history, num, carry)
            while batch.has_room:
                batch.add()
        return batch.choices, batch.carry

    def recommendation(self, seed: int, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """See `Recommending`. The point was evaluated at the top, unless nothing has a value there."""
        del seed  # nothing is random here
        observations = Observations.of(history)
        known = np.flatnonzero(np.isfinite(observations.value))
        at_top = known[observations.level[known] == observations.top]
        rows = at_top if len(at_top) else known
        points, sign = observations.unit[rows], history.problem.sign
        try:
            with threadpool_limits(1, user_api="blas"):
                posteriors, carry = self.surrogate.fit(observations, carry)
                mean, variance = posteriors.moments(points, observations.top)
        except (ArithmeticError, ValueError) as error:
            logger.warning("the fit to %d outcomes failed (%s): the best value is recommended", len(known), error)
            values = observations.value[rows]
            best = int(values.argmax())
            return _recommended(points[best], sign * float(values[best]), float(values.std())), carry
        best = int(mean.argmax())
        deviation = math.sqrt(max(float(variance[best]), 0.0))
        low, middle, high = posteriors.restore(mean[best] + deviation * np.array([-1.0, 0.0, 1.0]))
        return _recommended(points[best], sign * float(middle), 0.5 * float(high - low)), carry


class _Batch:
    """Choose the queries of one batch, one after the other."""

    def __init__(self, policy: Screening, seed: int, history: History, num: int, carry: Any) -> None:
        self.policy, self.seed, self.num, self.carry = policy, seed, num, carry
        self.choices: list[Choice] = []
        self.space, self.costs = history.problem.space, history.priced.ladder.costs
        self.top = len(self.costs) - 1
        self.observations = Observations.of(history)
        self.in_flight = [(np.asarray(t.query.unit, np.float64), t.query.level) for t in history.pending]
        queries = [trial.query for trial in history.kept]
        self.taken: Taken = {(point_key(np.asarray(query.unit, np.float64)), query.level) for query in queries}
        self.asked = [sum(query.level == level for query in queries) for level in range(self.top + 1)]
        in_flight = sum(self.costs[level] for _, level in self.in_flight)
        self.budget = math.inf if policy.total_cost is None else policy.total_cost - history.spent - in_flight
        self.trials = math.inf if policy.n_trials is None else policy.n_trials - len(history.trials)
        self.sizes = policy.start.sizes(len(self.space.params), self.costs, policy.total_cost, policy.n_trials)
        self.rng = np.random.default_rng([seed, len(history.trials)])
        self._belief: Belief | None = None
        self._failed = False

    @property
    def has_room(self) -> bool:
        """Return whether one more query is wanted and an evaluation at the top can be paid."""
        return len(self.choices) < self.num and self._pays(self.costs[self.top])

    def add(self) -> None:
        """Choose the next query."""
        started = self._started()
        offers = [] if started else self._offers()
        unit, level = started or self._chosen(offers) or (self._random(), self.top)
        self.choices.append(Choice(Query(tuple(float(u) for u in unit), level), tuple(offers)))
        self.taken.add((point_key(unit), level))
        self.in_flight.append((unit, level))
        self.asked[level] += 1
        self.budget -= self.costs[level]
        self.trials -= 1
        if self._belief is not None:
            self._belief = self._belief.imagined(self.rng, unit, level)

    def _pays(self, cost: float) -> bool:
        return self.budget >= cost * (1.0 - ROUNDING)

    def _started(self) -> tuple[Floats, int] | None:
        """Return the next query of the start, unless no evaluation at the top could follow it."""
        found = self.policy.start.next_query(self.sizes, self.observations, self.asked, self.taken, self.seed)
        if found is None or found[1] == self.top:
            return found
        can_follow = self.trials >= 2 and self._pays(self.costs[found[1]] + self.costs[self.top])
        return found if can_follow else None

    def _chosen(self, offers: list[Offer]) -> tuple[Floats, int] | None:
        """Return the model's choice, if it was asked."""
        if not offers:
            return None
        best = self.policy.choose.best(offers, self.costs, self._remaining)
        return np.array(best.unit), best.level

    @property
    def _remaining(self) -> float:
        """Return what the rule may count on: with one trial left, only the top is worth it."""
        return self.budget if self.trials >= 2 else min(self.budget, self.costs[self.top])

    def _offers(self) -> list[Offer]:
        """Return what the levels offer; nothing if there are too few values, or after a numerical failure."""
        if self._failed or np.isfinite(self.observations.value).sum() < FEWEST_VALUES:
            return []
        try:
            if self._belief is None:
                self._belief = self._learned()
            return self.policy.choose.offers(
                self.rng, self._belief, self.space, self.costs, taken=self.taken, remaining=self._remaining
            )
        except (ArithmeticError, ValueError) as error:
            told = len(self.observations)
            logger.warning("the fit to %d outcomes failed (%s): random queries instead", told, error)
            self._failed, self._belief = True, None
            return []

    def _learned(self) -> Belief:
        """Return what is believed, with outcomes imagined of all that is in flight."""
        posteriors, self.carry = self.policy.surrogate.fit(self.observations, self.carry)
        belief = Belief.of(posteriors, self.top)
        for unit, level in self.in_flight:
            belief = belief.imagined(self.rng, unit, level)
        return belief

    def _random(self) -> Floats:
        """Return a random point, one that was not asked at the top if a few tries find one."""
        points = self.space.snap(self.rng.random((RANDOM_TRIES, self.space.dim)))
        return next((unit for unit in points if (point_key(unit), self.top) not in self.taken), points[0])


def _recommended(unit: Floats, mean: float, std: float) -> Recommendation:
    return Recommendation(tuple(float(u) for u in unit), mean, std)
