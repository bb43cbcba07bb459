"""Compute by how much a point is expected to enlarge the front of several objectives, with exact moments of each.

The hypervolume of a front is an average over directions from the reference point (Deng and Zhang 2019; Golovin and
Zhang 2020): along each, it counts how far the front reaches, to the power of the number of objectives. A new point
reaches as far as its worst objective lets it. So what it is expected to add is an average of integrals over one
distance, in which the probabilities that it reaches so far in each objective are multiplied. This holds for any number
of objectives, and its cost does not depend on how many points the front has.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from bmbo.acquisition.feasibility import Feasibility, moved_moments
from bmbo.history.host_observations import Floats
from bmbo.history.pareto_front import orders, reference_below
from bmbo.protocols import WeightedPosteriors

BOTH_SIDES, UNSCALED = np.polynomial.legendre.leggauss(5)
NODES, NODE_WEIGHTS = 0.5 * (BOTH_SIDES + 1.0), 0.5 * UNSCALED
"""Places and weights of an integral from 0 to 1."""
NUM_OUTCOMES = 8
"""Imagined outcomes of a look, in all objectives together."""
TAIL = 5.0
"""Deviations above the mean beyond which nothing is expected."""
STRETCH = 0.1
"""Least length of an integral, in units of the front's width: a point far behind the front still has a slope."""


@dataclass(frozen=True)
class FrontImprovement:
    """Hold what is believed of several objectives, and from where on a point enlarges the front at the top.

    Attributes:
        objectives: what was learned of each, with outcomes imagined, at their means, of all that is in flight.
        top: level of the target.
        directions: unit vectors with positive coordinates [n k].
        reference: the standardised values that are just not good enough [k].
        width: of the front, in each objective [k].
        reached: how far the front reaches along each direction [n].
        given: for each objective the value, larger better, that is just not good enough; None if it is not known.
    """

    objectives: tuple[WeightedPosteriors, ...]
    top: int
    directions: Floats
    reference: Floats
    width: Floats
    reached: Floats
    given: tuple[float | None, ...]

    @classmethod
    def of(
        cls,
        objectives: tuple[WeightedPosteriors, ...],
        top: int,
        directions: Floats,
        given: tuple[float | None, ...],
        feasibility: Feasibility | None = None,
    ) -> "FrontImprovement":
        """Return what posteriors say of the front: that of the believed values of points evaluated at the top.

        Where no reference is given, it lies a little behind the front that all known points would form at the top.

        Args:
            objectives: what was learned of each objective.
            top: level of the target.
            directions: along which the front is measured.
            given: for each objective the value, larger better, that is just not good enough; None if it is not known.
            feasibility: what decides whether a value counts; None if every value does.
        """
        first = objectives[0].parts[0]
        known = believed(objectives, first.unit, top)
        counts = np.ones(len(known), np.bool_) if feasibility is None else feasibility.likely_kept(first.unit)
        known_kept = known[counts] if counts.any() else known
        reference = reference_below(known_kept)
        for place, value in enumerate(given):
            if value is not None:
                reference[place] = standardised(objectives[place], value)
        width = np.maximum(known_kept.max(0) - reference, 1e-6)
        front = known[counts & (first.level == top)]
        reached = np.zeros(len(directions))
        if len(front):
            reached = (((front - reference) / width)[:, None, :] / directions).min(2).max(0)
        return cls(objectives, top, directions, reference, width, np.maximum(reached, 0.0), given)

    def seen(self, objectives: tuple[WeightedPosteriors, ...], top: int) -> "FrontImprovement":
        """Return the same improvement with posteriors that show other levels."""
        return replace(self, objectives=objectives, top=top)

    def imagined(self, unit: Floats, level: int, feasibility: Feasibility | None) -> "FrontImprovement":
        """Return what is believed with one more query in flight, at the mean of its outcome."""
        objectives = tuple(
            replace(own, parts=tuple(part.imagined(unit, level, np.zeros(1)) for part in own.parts))
            for own in self.objectives
        )
        return FrontImprovement.of(objectives, self.top, self.directions, self.given, feasibility)

    def log_now(self, points: Floats) -> Floats:
        """Return the logarithm of what evaluations at the top are expected to add to the hypervolume, [q]."""
        moments = [
            [
                (float(weight), mean[:, 0], np.sqrt(variance))
                for weight, (mean, variance) in _moments(own, points, self.top)
            ]
            for own in self.objectives
        ]
        from_here, length = self._stretch(moments)
        log_total: Floats = np.zeros((len(points), len(self.directions), len(NODES)))
        at = from_here[..., None] + length[..., None] * NODES
        for place, parts in enumerate(moments):
            bound = self.reference[place] + self.width[place] * self.directions[:, place, None] * at
            each = [
                math.log(weight) + log_ndtr((mean[:, None, None] - bound) / sd[:, None, None])
                for weight, mean, sd in parts
            ]
            log_total = log_total + np.logaddexp.reduce(each, axis=0)
        size = len(self.objectives)
        log_total = log_total + np.log(length[..., None] * NODE_WEIGHTS * size * np.maximum(at, 1e-12) ** (size - 1))
        return np.logaddexp.reduce(log_total.reshape(len(points), -1), axis=1) - math.log(len(self.directions))

    def now(self, points: Floats) -> Floats:
        """Return what evaluations at the top are expected to add to the hypervolume, [q]."""
        return np.exp(self.log_now(points))

    def after_look(self, points: Floats, asked: Floats, level: int) -> list[Floats]:
        """Return what points are expected to add [q b] after each of several equally probable outcomes of a look.

        Over the outcomes, the mean of each point is what it is expected to add now: outcomes are few, and what they
        miss must not count for a look.
        """
        moved = [
            [
                (float(weight), *_narrow(*moved_moments(part, points, self.top, asked, level)))
                for part, weight in zip(own.parts, own.weights, strict=True)
            ]
            for own in self.objectives
        ]
        found = np.array([self._after(moved, outcome) for outcome in range(NUM_OUTCOMES)])
        mean = np.maximum(found.mean(0), 1e-300)
        return list(found * (self.now(points)[:, None] / mean))

    def _after(self, moved: list[list[tuple[float, Floats, Floats, Floats]]], outcome: int) -> Floats:
        """Return what points are expected to add after one outcome of looks, [q b]."""
        shape = moved[0][0][2].shape
        moments: list[list[tuple[float, Floats, Floats]]] = []
        for place, parts in enumerate(moved):
            # Evenly spread quantiles, in another order for each objective.
            at = (outcome * (1 + 2 * place) + place) % NUM_OUTCOMES
            white = float(ndtri((at + 0.5) / NUM_OUTCOMES))
            moments.append([(weight, (mean + white * shift).ravel(), sd.ravel()) for weight, mean, shift, sd in parts])
        from_here, length = self._stretch(moments, least=0.0)
        rows, columns = np.nonzero(length > 0.0)
        begin, long = from_here[columns], length[rows, columns]
        total = np.zeros(len(rows))
        size = len(self.objectives)
        for node, node_weight in zip(NODES, NODE_WEIGHTS, strict=True):
            at = begin + long * node
            product = node_weight * size * at ** (size - 1)
            for place, parts in enumerate(moments):
                bound = self.reference[place] + self.width[place] * self.directions[columns, place] * at
                product = product * sum(weight * ndtr((mean[rows] - bound) / sd[rows]) for weight, mean, sd in parts)
            total += product
        added = np.bincount(rows, total * long, minlength=int(np.prod(shape))) / len(self.directions)
        return added.reshape(shape)

    def _stretch(
        self, moments: list[list[tuple[float, Floats, Floats]]], least: float = STRETCH
    ) -> tuple[Floats, Floats]:
        """Return where the integrals of all directions begin [n], and how long those of points are [q n]."""
        far: Floats = np.full((1, 1), np.inf)
        for place, parts in enumerate(moments):
            highest = np.max([mean + TAIL * sd for _, mean, sd in parts], axis=0)
            reach = (highest - self.reference[place]) / self.width[place]
            far = np.minimum(far, reach[:, None] / self.directions[:, place])
        return self.reached, np.maximum(far - self.reached, least)


def believed(objectives: tuple[WeightedPosteriors, ...], points: Floats, top: int) -> Floats:
    """Return the values at the top that are expected of points [q k], standardised."""
    return np.stack([own.moments(points, top)[0] for own in objectives], axis=1)


def best_first(objectives: tuple[WeightedPosteriors, ...], points: Floats, top: int) -> Floats:
    """Return points [q d] in the order of the fronts that they are expected to form at the top."""
    return points[orders(believed(objectives, points, top))]


def standardised(posteriors: WeightedPosteriors, value: float) -> float:
    """Return a value, larger better, in the unit of what posteriors have learned."""
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if float(posteriors.restore(np.array([middle]))[0]) >= value else (middle, high)
    return high


def directions_of(num: int, size: int, rng: np.random.Generator) -> Floats:
    """Return unit vectors [n k] with positive coordinates, spread evenly over all of these, from a random start.

    They are a lattice of normal quantiles, whose steps are powers of the generalised golden ratio (Roberts 2018).
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (size + 1.0))
    if size == 2:
        angle = 0.5 * math.pi * ((np.arange(num) + rng.random()) / num)
        found = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        steps = ratio ** -np.arange(1.0, size + 1.0)
        share = (rng.random(size) + np.arange(1, num + 1)[:, None] * steps) % 1.0
        found = np.abs(ndtri(np.clip(0.5 + 0.5 * share, 0.5 + 1e-6, 1.0 - 1e-6)))
    found = np.maximum(found, 1e-3)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _moments(own: WeightedPosteriors, points: Floats, level: int) -> list[tuple[float, tuple[Floats, Floats]]]:
    return [(float(weight), part.moments(points, level)) for part, weight in zip(own.parts, own.weights, strict=True)]


def _narrow(mean: Floats, shift: Floats, sd: Floats) -> tuple[Floats, Floats, Floats]:
    return mean[:, :1], shift, sd
