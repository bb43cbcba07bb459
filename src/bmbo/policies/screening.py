"""Screen cheaply, then evaluate at the top or look more cheaply first, with exact moments on the host.

Nothing is compiled, and all random choices are NumPy's.
"""

import logging
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bmbo.acquisition.continue_or_look import ContinueOrLook, least_at_top
from bmbo.acquisition.fading_prior import FadingPrior
from bmbo.acquisition.feasibility import Allowed
from bmbo.acquisition.few_of_many_levels import FewLevels
from bmbo.acquisition.look_or_evaluate import Belief, LookOrEvaluate, Taken
from bmbo.acquisition.run_again import offer_to_run_again
from bmbo.history import History, Query
from bmbo.history.host_observations import Floats, Integers, Observations
from bmbo.history.prices import Prices
from bmbo.history.same_point import point_key
from bmbo.policies.ladder_start import LadderStart, allowed_filling
from bmbo.policies.learned_feasibility import allowed, learned
from bmbo.policies.learned_objectives import NUM_DIRECTIONS, learned_front, observations_of
from bmbo.problem import Problem
from bmbo.problem.spread_levels import has_many, spread_levels
from bmbo.protocols import Choice, ExactSurrogate, Offer, Recommendation

logger = logging.getLogger("bmbo")

FEWEST_VALUES = 3
"""Values that a model is fitted to. Before, queries after the start are random."""
RANDOM_TRIES = 64
"""Random points that are drawn to find one that was not asked yet: a small space soon has few of them."""
FRONT_POINTS, FRONT_ASKED = 40, 20
"""Points that may be evaluated next, and be looked at, with several objectives: each of them takes longer then."""
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
        climb: the rule in place of `choose` where training continues (`Problem.continues`).
        learns_failures: whether a probability of success is learned; if not, a failure has the worst value.
        prior: how fast a user's belief about good values fades.
        num_directions: along which the front of several objectives is measured.
    """

    surrogate: ExactSurrogate
    choose: LookOrEvaluate = field(default_factory=LookOrEvaluate)
    start: LadderStart = field(default_factory=LadderStart)
    total_cost: float | None = None
    n_trials: int | None = None
    climb: ContinueOrLook = field(default_factory=ContinueOrLook)
    learns_failures: bool = True
    prior: FadingPrior = field(default_factory=FadingPrior)
    num_directions: int = NUM_DIRECTIONS

    def within(self, total_cost: float | None, n_trials: int | None) -> "Screening":
        """See `Budgeted`."""
        return replace(self, total_cost=total_cost, n_trials=n_trials)

    @property
    def recommends_evaluated(self) -> bool:
        """See `SelfConfirming`."""
        return True

    @property
    def handles(self) -> frozenset[str]:
        """See `Demanding`."""
        return frozenset({"constraints", "feasible", "directions", "noisy"})

    def start_sizes(self, problem: Problem) -> tuple[int, ...]:
        """See `Starting`."""
        ladder, num_params = problem.ladder, len(problem.space.params)
        return tuple(self.start.sizes_on(ladder, num_params, ladder.costs, self.total_cost, self.n_trials))

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
        """See `Recommending`. The point was evaluated at the top, unless nothing has a value there.

        Raise ValueError if there are several objectives: then no single point is best.
        """
        del seed  # nothing is random here
        if history.problem.objectives:
            raise ValueError("of several objectives no single point is best: History.front has those that none beats")
        observations = Observations.of(history)
        known = np.flatnonzero(np.isfinite(observations.value))
        at_top = known[observations.level[known] == observations.top]
        rows = at_top if len(at_top) else known
        if history.problem.constraints:
            rows = _feasible_first(history, known, rows)
        points, sign = observations.unit[rows], history.problem.sign
        try:
            with threadpool_limits(1, user_api="blas"):
                posteriors, _, carry = learned(
                    self.surrogate, history, observations, carry, learns_failures=self.learns_failures
                )
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
        self.space, self.prices = history.problem.space, history.prices
        self.continues, self.costs = history.problem.continues, self.prices.costs
        self.noisy = history.problem.noisy
        self.top = len(self.costs) - 1
        self.observations = observations_of(history)
        self.in_flight = [(np.asarray(t.query.unit, np.float64), t.query.level) for t in history.pending]
        queries = [trial.query for trial in history.kept]
        self.taken: Taken = {(point_key(np.asarray(query.unit, np.float64)), query.level) for query in queries}
        units = ((history.trials[number].query.unit, known) for number, known in history.reports.items())
        self.taken |= {(point_key(np.asarray(unit, np.float64)), level) for unit, known in units for level, _ in known}
        self.asked = [sum(query.level == level for query in queries) for level in range(self.top + 1)]
        self.budget = math.inf if policy.total_cost is None else policy.total_cost - history.spent - history.in_flight
        self.trials = math.inf if policy.n_trials is None else policy.n_trials - len(history.trials)
        ladder, num_params = history.problem.ladder, len(self.space.params)
        self.few = FewLevels(spread_levels(ladder)) if has_many(ladder.num_levels) else None
        self.sizes = policy.start.sizes_on(ladder, num_params, self.costs, policy.total_cost, policy.n_trials)
        self.rng = np.random.default_rng([seed, len(history.trials)])
        self.history = history
        self.allowed: Allowed | None = None
        if history.problem.feasible is not None:
            self.allowed = partial(allowed, history.problem)
        self._belief: Belief | None = None
        self._failed = False

    @property
    def has_room(self) -> bool:
        """Return whether one more query is wanted and an evaluation at the top can be paid."""
        least = least_at_top(self.prices, self.taken) if self.continues else self.costs[self.top]
        return len(self.choices) < self.num and self._pays(least)

    def add(self) -> None:
        """Choose the next query."""
        started = self._started()
        offers = [] if started else self._offers()
        unit, level = started or self._chosen(offers) or (self._random(), self.top)
        if self.allowed is not None and not self.allowed(unit[None])[0]:
            unit = self._random()  # a result that was added is not allowed itself, and nothing else was left
        query = Query(tuple(float(u) for u in unit), level)
        price = self.prices.of(query.unit, level)
        if self.continues and not self._pays(price):
            self.num = len(self.choices)  # what could be paid is in flight
            return
        self.choices.append(Choice(query, tuple(offers)))
        self.taken.add((point_key(unit), level))
        self.in_flight.append((unit, level))
        self.asked[level] += 1
        self.budget -= price
        self.trials -= 1
        if self._belief is not None:
            self._belief = self._belief.imagined(self.rng, unit, level)

    def _pays(self, cost: float) -> bool:
        return self.budget >= cost * (1.0 - ROUNDING)

    def _started(self) -> tuple[Floats, int] | None:
        """Return the next query of the start, unless no evaluation at the top could follow it."""
        found = self.policy.start.next_query(
            self.sizes, self.observations, self.asked, self.taken, self.seed, allowed=self.allowed
        )
        if found is None or found[1] == self.top:
            return found
        can_follow = self.trials >= 2 and self._pays(self.costs[found[1]] + self.costs[self.top])
        return found if can_follow else None

    def _chosen(self, offers: list[Offer]) -> tuple[Floats, int] | None:
        """Return the model's choice, if it was asked."""
        if not offers:
            return None
        if self.continues:
            best = self.policy.climb.best(offers)
        else:
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
            if self.few is None:
                return self._offers_of(self._belief, self.prices, self.taken)
            few = self.few
            found = self._offers_of(few.belief(self._belief), few.prices(self.prices), few.taken(self.taken))
            return few.offers(found)
        except (ArithmeticError, ValueError) as error:
            told = len(self.observations)
            logger.warning("the fit to %d outcomes failed (%s): random queries instead", told, error)
            self._failed, self._belief = True, None
            return []

    def _offers_of(self, belief: Belief, prices: Prices, taken: Taken) -> list[Offer]:
        """Return what the levels of a belief offer."""
        if self.continues:
            return self.policy.climb.offers(
                self.rng,
                belief,
                self.space,
                prices,
                taken=taken,
                awaited={point_key(unit) for unit, _ in self.in_flight},
                remaining=self.budget * (1.0 + ROUNDING),
                looks=self.policy.choose.looks and self.trials >= 2,
            )
        choose = self.policy.choose
        if belief.front is not None:
            choose = replace(choose, num_points=FRONT_POINTS, num_asked=FRONT_ASKED)
        if self.noisy:  # below the top, a second look may be worth it
            taken = {(key, level) for key, level in taken if level == belief.top}
        found = choose.offers(self.rng, belief, self.space, prices.costs, taken=taken, remaining=self._remaining)
        again = offer_to_run_again(belief, prices.costs[belief.top]) if self.noisy else None
        if again is None:
            return found
        # Where everything was evaluated, what is offered is a known point too.
        is_new = (point_key(np.array(found[0].unit)), belief.top) not in taken
        return found if is_new and found[0].gain >= again.gain else [again, *found[1:]]

    def _learned(self) -> Belief:
        """Return what is believed, with outcomes imagined of all that is in flight."""
        belief = self._learned_now()
        for unit, level in self.in_flight:
            belief = belief.imagined(self.rng, unit, level)
        return belief

    def _learned_now(self) -> Belief:
        """Return what is believed without what is in flight."""
        policy, weigh = self.policy, self.policy.prior.weigh(self.observations)
        if self.history.problem.objectives:
            belief, self.carry = learned_front(
                policy.surrogate,
                self.history,
                self.carry,
                self.rng,
                weigh,
                learns_failures=policy.learns_failures,
                num_directions=policy.num_directions,
            )
            return belief
        posteriors, feasibility, self.carry = learned(
            policy.surrogate, self.history, self.observations, self.carry, learns_failures=policy.learns_failures
        )
        return Belief.of(posteriors, self.top, feasibility, weigh, noisy=self.noisy)

    def _random(self) -> Floats:
        """Return a random point, one that was not asked at the top if a few tries find one."""
        points = self.space.snap(self.rng.random((RANDOM_TRIES, self.space.dim)))
        if self.allowed is not None:
            seed = int(self.rng.integers(2**31))
            points = allowed_filling(self.space, RANDOM_TRIES, seed, self.allowed)
        return next((unit for unit in points if (point_key(unit), self.top) not in self.taken), points[0])


def _feasible_first(history: History, known: Integers, rows: Integers) -> Integers:
    """Return the rows among which the recommendation is: those that keep all constraints, at the top if any do there.

    If none does, it is the row at the top that comes nearest, or else any row with a value.
    """
    told = history.learned_from
    for some in (rows, known):
        kept = np.array([row for row in some if history.keeps_constraints(told[row])], np.intp)
        if len(kept):
            return kept
    nearest = history.least_infeasible
    return rows if nearest is None else np.array([row for row in rows if told[row] == nearest], np.intp)


def _recommended(unit: Floats, mean: float, std: float) -> Recommendation:
    return Recommendation(tuple(float(u) for u in unit), mean, std)
