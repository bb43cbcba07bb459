"""Choose the next query: evaluate the best point at the top now, or look at some point more cheaply first.

An evaluation now earns the largest expected improvement, for the cost of the top. A look earns the largest expected
improvement after its outcome, for both costs. The query with the higher rate is taken. A level that says nothing about
the top adds nothing to what an evaluation earns, and is never asked.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bmbo.acquisition.fading_prior import Weigh
from bmbo.acquisition.feasibility import Feasibility
from bmbo.acquisition.front_improvement import FrontImprovement, best_first
from bmbo.acquisition.host_improvement import expected_improvement, log_expected_improvement
from bmbo.acquisition.host_search import candidates, climbed
from bmbo.history.host_observations import Floats
from bmbo.history.same_point import point_key
from bmbo.problem import Space
from bmbo.protocols import Offer, WeightedPosteriors

NUM_CENTRES = 6
"""Known points near which candidates are made."""
NUM_FUTURES = 4
"""Imagined futures, as soon as something is in flight."""
ENOUGH_MORE = 1.001
"""Factor by which a look that costs nothing must improve on an evaluation."""
NODES, UNSCALED = np.polynomial.hermite_e.hermegauss(7)
NODE_WEIGHTS = UNSCALED / UNSCALED.sum()

LEAST_MOVE = 1e-12
"""Least difference of variances, so that what moves with the best point has an improvement near 0, and not 0 / 0."""

Taken = set[tuple[bytes, int]]
"""What was asked: the key of a point, and a level."""


@dataclass(frozen=True)
class Belief:
    """Hold posteriors, and the best value at the top that each of them believes in.

    Attributes:
        posteriors: what was learned, with outcomes imagined of all that is in flight.
        top: level of the target.
        bests: for each posterior, the largest mean in each imagined future [f] at points evaluated at the top, or at
            all known points before there are any.
        feasibility: what decides whether a value counts; None if every value does.
        weigh: how far a user's prior trusts points; None if there is none.
        front: takes the place of the improvement on `bests` where there are several objectives; `posteriors` are then
            those of the first.
        noisy: whether an evaluation tells a value only roughly, so that what counts is what is believed after it.
        answers: for each posterior, the point that it believes to be best, [1 d]; empty without noise.
    """

    posteriors: WeightedPosteriors
    top: int
    bests: tuple[Floats, ...]
    feasibility: Feasibility | None = None
    weigh: Weigh | None = None
    front: FrontImprovement | None = None
    noisy: bool = False
    answers: tuple[Floats, ...] = ()

    @classmethod
    def of(
        cls,
        posteriors: WeightedPosteriors,
        top: int,
        feasibility: Feasibility | None = None,
        weigh: Weigh | None = None,
        *,
        noisy: bool = False,
    ) -> "Belief":
        """Return what posteriors believe."""
        bests: list[Floats] = []
        answers: list[Floats] = []
        for part in posteriors.parts:
            rows = part.level == top
            unit = part.unit[rows] if rows.any() else part.unit
            means = part.moments(unit, top)[0]
            bests.append(means.max(0) if feasibility is None else feasibility.reference(unit, means))
            if noisy:
                answers.append(unit[[means.mean(1).argmax()]])
        return cls(posteriors, top, tuple(bests), feasibility, weigh, noisy=noisy, answers=tuple(answers))

    def imagined(self, rng: np.random.Generator, unit: Floats, level: int) -> "Belief":
        """Return the belief with one more query in flight: in each future, another quantile of its outcome."""
        quantiles: Floats = ndtri((np.arange(NUM_FUTURES) + 0.5) / NUM_FUTURES)
        white = rng.permutation(quantiles)
        parts = tuple(part.imagined(unit, level, white) for part in self.posteriors.parts)
        feasibility = None if self.feasibility is None else self.feasibility.imagined(unit, level)
        posteriors = WeightedPosteriors(parts, self.posteriors.weights, self.posteriors.restore)
        if self.front is not None:
            front = self.front.imagined(unit, level, feasibility)
            return Belief(front.objectives[0], self.top, (), feasibility, self.weigh, front)
        return Belief.of(posteriors, self.top, feasibility, self.weigh, noisy=self.noisy)

    def deviations(self, place: int, points: Floats, variance: Floats) -> Floats:
        """Return how far evaluations of points at the top may lift them above the best, for one of the posteriors [q].

        Without noise an evaluation tells the value. With noise it moves the believed mean, and with it that of the
        best point, as far as the two go together: beside the best, it tells nothing of which is better.
        """
        if not self.noisy:
            return np.sqrt(variance)
        part = self.posteriors.parts[place]
        shared = part.covariance(points, self.top, self.answers[place], self.top)[:, 0]
        return moved_apart(variance, shared, part.noise[self.top])


def moved_apart(variance: Floats, shared: Floats, noise: float) -> Floats:
    """Return how far one noisy run of points moves their means away from that of another point.

    Args:
        variance: of the points.
        shared: their covariances with the other point.
        noise: the variance of a single value.
    """
    return np.maximum(np.abs(variance - shared), LEAST_MOVE) / np.sqrt(variance + noise)


def evaluate_now(belief: Belief, points: Floats) -> Floats:
    """Return the expected improvement of an evaluation at the top, averaged over posteriors and futures, [q]."""
    total = _improvement_now(belief, points) if belief.front is None else belief.front.now(points)
    if belief.feasibility is not None:
        total = total * np.exp(belief.feasibility.log_probability(points))
    return total if belief.weigh is None else total * np.exp(belief.weigh(points))


def _improvement_now(belief: Belief, points: Floats) -> Floats:
    """Return the expected improvement on the best value, [q]."""
    total = np.zeros(len(points))
    parts = zip(belief.posteriors.parts, belief.posteriors.weights, belief.bests, strict=True)
    for place, (part, weight, best) in enumerate(parts):
        mean, variance = part.moments(points, belief.top)
        total += weight * expected_improvement(mean, belief.deviations(place, points, variance)[:, None], best).mean(1)
    return total


def _log_improvement_now(belief: Belief, points: Floats) -> Floats:
    """Return the logarithm of the expected improvement on the best value, [q]."""
    each: list[Floats] = []
    parts = zip(belief.posteriors.parts, belief.posteriors.weights, belief.bests, strict=True)
    for place, (part, weight, best) in enumerate(parts):
        mean, variance = part.moments(points, belief.top)
        logs = log_expected_improvement(mean, belief.deviations(place, points, variance)[:, None], best)
        each.append(np.logaddexp.reduce(logs, axis=1) - np.log(logs.shape[1]) + np.log(weight))
    total: Floats = np.logaddexp.reduce(each, axis=0)
    return total


def look_first(belief: Belief, points: Floats, asked: Floats, level: int) -> Floats:
    """Return the expectation of the largest improvement at the top after a look at each of the asked points, [b].

    The outcome of a look moves the means of all points along their covariances with it, and takes its share of their
    variances. The best point as it then stands is evaluated.
    """
    earned = np.zeros(len(asked))
    for node_weight, height in heights_after_look(belief, points, asked, level):
        earned += node_weight * height.max(0)
    if belief.feasibility is None:
        return earned
    return belief.feasibility.if_it_runs(asked, earned, float(evaluate_now(belief, points).max()))


def heights_after_look(
    belief: Belief, points: Floats, asked: Floats, level: int
) -> Generator[tuple[float, Floats], None, None]:
    """Yield the probabilities of outcomes of a look, and the improvement at each point after each look, [q b]."""
    if belief.front is not None:
        yield from _front_after_look(belief, belief.front, points, asked, level)
        return
    after: list[tuple[Floats, Floats, Floats]] = []
    for place, part in enumerate(belief.posteriors.parts):
        mean, variance = part.moments(points, belief.top)
        deviation = np.sqrt(part.moments(asked, level)[1] + part.noise[level])
        shift = part.covariance(points, belief.top, asked, level) / deviation
        left = np.maximum(variance[:, None] - shift**2, 1e-12)
        if not belief.noisy:
            after.append((mean, shift, np.sqrt(left)))
            continue
        answer = belief.answers[place]  # a look moves it too
        with_it = part.covariance(answer, belief.top, asked, level) / deviation
        shared = part.covariance(points, belief.top, answer, belief.top) - shift * with_it
        after.append((mean, shift - with_it, moved_apart(left, shared, part.noise[belief.top])))
    factors = None if belief.feasibility is None else belief.feasibility.after_look(points, asked, level)
    trusted = None if belief.weigh is None else np.exp(belief.weigh(points))[:, None]
    for node, node_weight in zip(NODES, NODE_WEIGHTS, strict=True):
        height = np.zeros((len(points), len(asked)))
        for (mean, shift, sd), weight, best in zip(after, belief.posteriors.weights, belief.bests, strict=True):
            means = mean[:, None, :] + (node * shift)[:, :, None]
            # The mean over futures comes first, as for an evaluation now: to wait for what is in flight is no merit.
            height += weight * expected_improvement(means, sd[:, :, None], best).mean(2)
        if trusted is not None:
            height = height * trusted
        if factors is None:
            yield float(node_weight), height
        else:
            yield from ((float(node_weight) / len(factors), height * factor) for factor in factors)


def _front_after_look(
    belief: Belief, front: FrontImprovement, points: Floats, asked: Floats, level: int
) -> Generator[tuple[float, Floats], None, None]:
    """Yield the same as `heights_after_look` for several objectives."""
    outcomes = front.after_look(points, asked, level)
    factors = [np.ones(1)] if belief.feasibility is None else belief.feasibility.after_look(points, asked, level)
    trusted = 1.0 if belief.weigh is None else np.exp(belief.weigh(points))[:, None]
    for height in outcomes:
        yield from ((1.0 / len(outcomes) / len(factors), height * trusted * factor) for factor in factors)


@dataclass(frozen=True)
class LookOrEvaluate:
    """Choose one query by the rule of this file.

    Args:
        looks: whether levels below the top are asked at all.
        num_points: that may be evaluated next.
        num_asked: of these, how many may be looked at.
    """

    looks: bool = True
    num_points: int = 70
    num_asked: int = 40

    def offers(
        self,
        rng: np.random.Generator,
        belief: Belief,
        space: Space,
        costs: Sequence[float],
        *,
        taken: Taken,
        remaining: float,
    ) -> list[Offer]:
        """Return the best query of the top, and then that of each level below that can be asked.

        Args:
            rng: of the search for points.
            belief: what is believed.
            space: what is searched.
            costs: of the levels.
            taken: what was asked; the top is asked again only where everything was.
            remaining: what may still be spent.
        """
        points = self.places(rng, belief, space, taken)
        top, cost = belief.top, costs[belief.top]
        now = evaluate_now(belief, points)
        found = [Offer(top, _as_unit(points[now.argmax()]), max(float(now.max()), 1e-300), cost)]
        for below in range(top if self.looks else 0):
            asked = _not_taken(points[: self.num_asked], range(below, top + 1), taken)
            if costs[below] + cost > remaining or len(asked) == 0:
                continue
            price = cost if _looks_are_free(remaining, cost) else cost + costs[below]
            gains = look_first(belief, points, asked, below)
            # By the rate: two gains that differ in the last digit may have the same one.
            place = int((gains / price).argmax())
            found.append(Offer(below, _as_unit(asked[place]), float(gains[place]), price))
        return found

    def choose(
        self,
        rng: np.random.Generator,
        belief: Belief,
        space: Space,
        costs: Sequence[float],
        *,
        taken: Taken,
        remaining: float,
    ) -> tuple[Floats, int]:
        """Return the point and the level with the highest rate of improvement at the top for their cost.

        For the arguments see `offers`.
        """
        offers = self.offers(rng, belief, space, costs, taken=taken, remaining=remaining)
        best = self.best(offers, costs, remaining)
        return np.array(best.unit), best.level

    def best(self, offers: Sequence[Offer], costs: Sequence[float], remaining: float) -> Offer:
        """Return the offer with the highest rate; a look that costs nothing must be clearly better."""
        best, enough = offers[0], ENOUGH_MORE if _looks_are_free(remaining, costs[-1]) else 1.0
        for offer in offers[1:]:
            if offer.rate > enough * best.rate:
                best = offer
        return best

    def places(self, rng: np.random.Generator, belief: Belief, space: Space, taken: Taken) -> Floats:
        """Return the points that promise most at the top, the best first, without those that were asked there."""
        posteriors, top = belief.posteriors, belief.top

        def height(points: Floats) -> Floats:
            total = _log_improvement_now(belief, points) if belief.front is None else belief.front.log_now(points)
            if belief.feasibility is not None:
                total = total + belief.feasibility.log_probability(points)
            return total if belief.weigh is None else total + belief.weigh(points)

        known = np.unique(posteriors.parts[0].unit, axis=0)
        if belief.front is None:
            believed = posteriors.parts[0].moments(known, top)[0].mean(1)
            centres = known[np.argsort(-believed)[:NUM_CENTRES]]
        else:
            centres = best_first(belief.front.objectives, known, top)[:NUM_CENTRES]
        pool = _not_taken(candidates(space, rng, centres, known), [top], taken)
        if len(pool) == 0:
            return centres  # everything was evaluated: the best points again, because there may be noise
        heights = height(pool)
        if np.isneginf(heights).all():
            return centres  # nothing that may be run is left
        ends, reached = climbed(space, rng, height, pool, heights)
        points, places = np.unique(np.vstack([ends, pool]), axis=0, return_index=True)
        found = np.concatenate([reached, heights])[places]
        order = np.argsort(-found)[: np.count_nonzero(~np.isneginf(found))]
        return _not_taken(points[order], [top], taken)[: self.num_points]


def _looks_are_free(remaining: float, cost: float) -> bool:
    """Return whether a budget does not pay for a second evaluation. The rest is spent on looks or on nothing."""
    return remaining < 2 * cost


def _as_unit(point: Floats) -> tuple[float, ...]:
    return tuple(float(u) for u in point)


def _not_taken(points: Floats, levels: Sequence[int], taken: Taken) -> Floats:
    """Return the points that were asked at none of the levels."""
    keys = [point_key(row) for row in points]
    return points[[not any((key, level) in taken for level in levels) for key in keys]]
