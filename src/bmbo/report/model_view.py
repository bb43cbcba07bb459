"""Compute what an exact model says of a study: predictions, how levels relate, and which parameters matter."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from bmbo.history import History
from bmbo.history.host_observations import Floats, Observations
from bmbo.history.same_point import point_key
from bmbo.problem import Problem
from bmbo.protocols import WeightedPosteriors
from bmbo.report.parameter_axes import axis_of
from bmbo.report.report_data import ReportData

logger = logging.getLogger("bmbo")

FEWEST_VALUES = 3
"""Values that a model is fitted to."""
NUM_PLACES = 200
"""Random points at which levels are compared."""
NUM_BACKGROUNDS = 24
"""Random points through which each parameter is moved, to measure its importance."""
NUM_MOVES = 9
"""Values that a parameter takes at each of these points."""
FEWEST_SHARED = 4
"""Points that two levels must share before their order of values is compared."""


@dataclass(frozen=True)
class Band:
    """Hold predictions in the objective's unit: the mean, and the mean less and plus one deviation."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class ModelView:
    """Hold an exact model of a problem that was fitted to all outcomes."""

    problem: Problem
    posteriors: WeightedPosteriors

    @classmethod
    def of(cls, data: ReportData) -> "ModelView | None":
        """Return the model of a study; None if there is none, too few values, or if the fit fails.

        None also for several objectives, of which each has a model: see `ReportData.of_objective`.
        """
        if data.problem.objectives or data.surrogate is None or len(data.done) < FEWEST_VALUES:
            return None
        try:
            posteriors, _ = data.surrogate.fit(Observations.of(data.history), data.carry)
        except (ArithmeticError, ValueError) as error:
            logger.warning("the report does without a model, because its fit failed: %s", error)
            return None
        return cls(data.problem, posteriors)

    def standardised(self, points: Floats) -> Floats:
        """Return the predicted means at the top [q], standardised, larger better."""
        return self.posteriors.moments(points, self.problem.ladder.top)[0]

    def at_top(self, points: Floats) -> Band:
        """Return what is predicted at the top at points [q d], in the objective's unit."""
        mean, variance = self.posteriors.moments(points, self.problem.ladder.top)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        restored = [self.problem.sign * self.posteriors.restore(mean + step * deviation) for step in (-1.0, 0.0, 1.0)]
        return Band(restored[1], np.minimum(restored[0], restored[2]), np.maximum(restored[0], restored[2]))


def random_points(problem: Problem, num: int) -> Floats:
    """Return points of the space, the same ones at every call."""
    space = problem.space
    return space.snap(np.random.default_rng(0).random((num, space.dim)))


def level_correlations(view: ModelView, levels: Sequence[int] | None = None) -> Floats:
    """Return how the values of each two of the levels, or of all, go together over the space in the model [m m].

    It is the expected covariance over points under the posterior, divided by the deviations: the covariance of the
    predicted means, and that of what is still unknown. What is unknown but the same at all points does not count.
    """
    levels = range(view.problem.ladder.num_levels) if levels is None else levels
    num_levels = len(levels)
    points = random_points(view.problem, NUM_PLACES)
    total = np.zeros((num_levels, num_levels))
    for part, weight in zip(view.posteriors.parts, view.posteriors.weights, strict=True):
        means = np.array([part.moments(points, level)[0][:, 0] for level in levels])
        joint = np.atleast_2d(np.cov(means, bias=True))
        for one in range(num_levels):
            for other in range(num_levels):
                unknown = part.covariance(points, levels[one], points, levels[other])
                joint[one, other] += unknown.diagonal().mean() - unknown.mean()
        deviation = np.sqrt(np.maximum(joint.diagonal(), 1e-300))
        total += weight * joint / np.outer(deviation, deviation)
    return np.clip(total, -1.0, 1.0)


@dataclass(frozen=True)
class SharedPoints:
    """Hold how the observed values of each two levels go together at the points that both have.

    Attributes:
        rank: Spearman's correlation of the ranks; NaN if there are too few points, or if one level is constant [m m].
        num: number of shared points [m m].
    """

    rank: Floats
    num: Floats

    @property
    def is_known(self) -> bool:
        """Return whether any two levels could be compared."""
        return bool(np.isfinite(self.rank[~np.eye(len(self.rank), dtype=bool)]).any())


def shared_points(history: History, levels: Sequence[int] | None = None) -> SharedPoints:
    """Return how the values of each two of the levels, or of all, go together at the points that both have."""
    levels = range(history.problem.ladder.num_levels) if levels is None else levels
    num_levels = len(levels)
    values: list[dict[bytes, float]] = [{} for _ in range(num_levels)]
    place = {level: place for place, level in enumerate(levels)}
    for trial in history.done:
        if trial.value is not None and trial.query.level in place:
            values[place[trial.query.level]][point_key(np.round(np.asarray(trial.query.unit, np.float64), 9))] = (
                trial.value
            )
    rank, num = np.full((num_levels, num_levels), np.nan), np.zeros((num_levels, num_levels))
    for one in range(num_levels):
        for other in range(num_levels):
            shared = [key for key in values[one] if key in values[other]]
            num[one, other] = len(shared)
            pairs = [[values[one][key] for key in shared], [values[other][key] for key in shared]]
            if len(shared) >= FEWEST_SHARED and all(len(set(column)) > 1 for column in pairs):
                rank[one, other] = np.corrcoef([rankdata(column) for column in pairs])[0, 1]
    return SharedPoints(rank, num)


def importances(view: ModelView) -> dict[str, float]:
    """Return the importance of each parameter, the most important first; together they are 1, or all 0.

    Each parameter is moved alone through random points of the space. Its importance is the variance of the predicted
    mean at the top under these moves: its total effect in the sense of Sobol and Jansen.
    """
    space = view.problem.space
    backgrounds = random_points(view.problem, NUM_BACKGROUNDS)
    effects: dict[str, float] = {}
    for name in space.names:
        axis = axis_of(space, name, NUM_MOVES)
        predicted = view.standardised(np.vstack([axis.through(centre) for centre in backgrounds]))
        effects[name] = float(predicted.reshape(NUM_BACKGROUNDS, -1).var(axis=1).mean())
    total = sum(effects.values())
    ordered = sorted(effects, key=lambda name: -effects[name])
    return {name: effects[name] / total if total > 0 else 0.0 for name in ordered}


def centre_of(data: ReportData) -> Sequence[float] | None:
    """Return the point through which slices go: the recommendation, else the best one of the highest level."""
    if data.recommendation is not None:
        return data.recommendation.unit
    sign = data.problem.sign
    trials = [entry.trial for entry in data.done]
    best = max(trials, key=lambda trial: (trial.query.level, sign * (trial.value or 0.0)), default=None)
    return None if best is None else best.query.unit
