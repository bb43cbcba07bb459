"""Choose the next query where training continues: go on with a configuration by one level, or begin a new one.

To stop at a level and go on later costs nothing, so that a configuration always climbs one level at a time. A step to
the top earns the expected improvement there, for the cost of the step. A step below the top earns the improvement that
is expected after its outcome, for its own cost and that of going on with what is then best. The step with the highest
rate is taken. What a configuration must pay depends on what of it is finished (`Prices`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from bmbo.acquisition.look_or_evaluate import Belief, LookOrEvaluate, Taken, evaluate_now, heights_after_look
from bmbo.history.host_observations import Floats, Integers
from bmbo.history.prices import Prices
from bmbo.history.same_point import point_key
from bmbo.problem import Space
from bmbo.protocols import Offer

NUM_STEPS = 40
"""Configurations for which a step to one level is considered: those that promise most at the top."""
TINY = 1e-300


@dataclass(frozen=True)
class ContinueOrLook:
    """Choose one query by the rule of this file.

    Args:
        search: finds the points that promise most.
    """

    search: LookOrEvaluate = field(default_factory=LookOrEvaluate)

    def offers(
        self,
        rng: np.random.Generator,
        belief: Belief,
        space: Space,
        prices: Prices,
        *,
        taken: Taken,
        awaited: Collection[bytes],
        remaining: float,
        looks: bool,
    ) -> list[Offer]:
        """Return the best step to each level that a step can lead to, the top first; none if nothing can be paid.

        Args:
            rng: of the search for points.
            belief: what is believed.
            space: what is searched.
            prices: of queries, as the history has them.
            taken: what was asked, those in flight included.
            awaited: keys of the points in flight, which climb no further before their outcome.
            remaining: what may still be spent.
            looks: whether there may be steps that end below the top; each needs a trial more than going there at once.
        """
        top = belief.top
        points = self._points(rng, belief, space, prices, taken)
        now = evaluate_now(belief, points)
        order = np.argsort(-now, kind="stable")
        points, now = points[order], now[order]
        at_top = np.array([prices.of(_as_unit(point), top) for point in points])
        levels = np.array([_next_level(point, taken, top) if looks else top for point in points], np.intp)
        is_free = np.array([point_key(point) not in awaited for point in points], np.bool_)
        found: list[Offer] = []
        for level in range(top, -1, -1):
            rows = np.flatnonzero((levels == level) & is_free)[:NUM_STEPS]
            steps = np.array([prices.of(_as_unit(points[row]), level) for row in rows])
            gains, after, least = now[rows], np.zeros(len(rows)), 0.0
            if level < top and len(rows):
                going_on = prices.costs[top] - prices.costs[level]
                least = min(going_on, float(at_top[is_free].min()))
                price = np.repeat(at_top[:, None], len(rows), 1)
                price[rows, np.arange(len(rows))] = going_on
                gains, after = _after_look(belief, points, rows, level, price)
            payable = steps + least <= remaining
            if payable.any():
                costs, gains = steps + after, np.maximum(gains, TINY)
                place = int(np.where(payable, gains / costs, -1.0).argmax())
                found.append(Offer(level, _as_unit(points[rows[place]]), float(gains[place]), float(costs[place])))
        return found

    def best(self, offers: Sequence[Offer]) -> Offer:
        """Return the offer with the highest rate, the first of several."""
        return max(offers, key=lambda offer: offer.rate)

    def _points(self, rng: np.random.Generator, belief: Belief, space: Space, prices: Prices, taken: Taken) -> Floats:
        """Return the points that may be evaluated at the top: promising new ones, and all that have begun.

        The points that have begun are those of the record to the last digit, because only they can go on.
        """
        begun = [unit for unit in prices.resumable if (_key(unit), belief.top) not in taken]
        known = {_key(unit) for unit in begun}
        new = [point for point in self.search.places(rng, belief, space, taken) if point_key(point) not in known]
        return np.array([*begun, *new], np.float64).reshape(-1, space.dim)


def least_at_top(prices: Prices, taken: Taken) -> float:
    """Return the cost of the cheapest evaluation at the top of a point that was not asked there."""
    top = len(prices.costs) - 1
    begun = (prices.of(unit, top) for unit in prices.resumable if (_key(unit), top) not in taken)
    return min([prices.costs[top], *begun])


def _after_look(belief: Belief, points: Floats, rows: Integers, level: int, price: Floats) -> tuple[Floats, Floats]:
    """Return what steps to a level below the top earn, and what going on then costs, [b] each.

    After each outcome, the point with the highest rate is evaluated at the top. `price` [q b] is what that costs for
    each point, after a step of each of the rows.
    """
    gains, costs = np.zeros(len(rows)), np.zeros(len(rows))
    for weight, height in heights_after_look(belief, points, points[rows], level):
        best = (height / price).argmax(0), np.arange(len(rows))
        gains += weight * height[best]
        costs += weight * price[best]
    if belief.feasibility is not None:
        gains = belief.feasibility.if_it_runs(points[rows], gains, float(evaluate_now(belief, points).max()))
    return gains, costs


def _next_level(point: Floats, taken: Taken, top: int) -> int:
    """Return the level above the highest one at which a point was asked, and the top for what was asked there."""
    key = point_key(point)
    begun = max((level for level in range(top + 1) if (key, level) in taken), default=-1)
    return min(begun + 1, top)


def _key(unit: tuple[float, ...]) -> bytes:
    return point_key(np.asarray(unit, np.float64))


def _as_unit(point: Floats) -> tuple[float, ...]:
    return tuple(float(u) for u in point)
