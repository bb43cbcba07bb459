"""Choose as MF-GP-UCB does (Kandasamy et al. 2016): by upper confidence bounds of all levels.

The method assumes |f_m - f_M| <= zeta_m, which makes sense only for levels on the same scale. The levels of a ladder
may have any scale. So each is standardised by its own random starts, and the bound is on how levels differ once they
have the same mean and spread. Only the starts are used, because later observations gather where the values are good, in
different ways at each level.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bmbo.acquisition.baseline_search import (
    Candidate,
    CandidateSearch,
    best_candidate,
    find_optima,
    in_flight,
    moments,
)
from bmbo.acquisition.batch_invariants import Pending
from bmbo.acquisition.runnable_points import exact_point
from bmbo.history import Dataset, History, Query, TrialRecord
from bmbo.history.same_point import is_among
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Select

CHECKS = "checks"
"""Tag of a query that repeats a point one level below, to measure how far apart the levels are."""

GAMMA_SHARE = 0.01  # share of the range of the starts: the first gamma of the authors' code
GAMMA_GROWTH = 5.0  # factor for a gamma that keeps the search at cheap levels for too long, as in the authors' code
ZETA_MARGIN = 2.0  # a broken bound becomes this multiple of the difference that broke it, as in the authors' code


@dataclass(frozen=True)
class Comparable:
    """Make the levels comparable: value = scale * standardised + shift, lowest level first."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]


@dataclass(frozen=True)
class Suspect:
    """Hold an observation whose level below has not been observed at the same point.

    The two levels may break their bound there.
    """

    unit: tuple[float, ...]
    level: int
    value: float


@dataclass(frozen=True)
class Rules:
    """Hold what a history says about the bounds.

    Attributes:
        beta: how cautious the bound is.
        zeta: how far each level may be from the next.
        gamma: uncertainty of each level above which a query is worth its cost.
        comparable: what makes the levels comparable.
        suspect: an observation that may need a check.
    """

    beta: float
    zeta: tuple[float, ...]
    gamma: tuple[float, ...]
    comparable: Comparable
    suspect: Suspect | None = None

    @classmethod
    def of(cls, history: History, data: Dataset, num_startup: int) -> "Rules":
        """Return the rules after a history whose observations were standardised as `data` says."""
        start, later = _split(history, num_startup)
        comparable, values = _compared(history, data, start)
        num_dims = history.problem.space.dim
        unchecked = [
            trial
            for trial in later
            if trial.number in values and trial.query.level > 0 and not _is_checked(trial, history.kept)
        ]
        last = unchecked[-1] if unchecked else None
        return cls(
            beta=0.2 * num_dims * math.log(2.0 * num_dims * (len(later) + 1)),
            zeta=_zeta(history, values),
            gamma=_gamma(history, later, [values[trial.number] for trial in start if trial.number in values]),
            comparable=comparable,
            suspect=None if last is None else Suspect(last.query.unit, last.query.level, values[last.number]),
        )


@dataclass(frozen=True)
class UpperConfidence(Select):
    """Choose the point with the largest upper bound, min over levels of mean + beta^(1/2) std + zeta, and its level.

    The level is the lowest whose beta^(1/2) std is above gamma at that point. It returns one query at a time. What is
    in flight counts as if its mean had been observed.

    Args:
        num_startup: number of random queries at each level that come first.
        search: how the point is searched.
    """

    num_startup: int = 10
    search: CandidateSearch = field(default_factory=CandidateSearch)

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        rules = Rules.of(history, data, self.num_startup)
        pending = [trial.query for trial in history.pending]
        return self.choose(key, posterior, history.problem, rules, pending)[:num]

    def choose(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, rules: Rules, pending: Sequence[Query]
    ) -> list[Query]:
        """Return the query under given rules: a check of a suspect, or the point where the bound is largest."""
        space, num_levels = problem.space, problem.ladder.num_levels
        zeta, gamma = (jnp.asarray([*bound[: num_levels - 1], 0.0], jnp.float32) for bound in (rules.zeta, rules.gamma))
        bounds = Bounds(
            beta=jnp.asarray(rules.beta, jnp.float32),
            zeta=jnp.cumsum(zeta[::-1])[::-1],
            gamma=gamma,
            scale=jnp.asarray(rules.comparable.scale, jnp.float32),
            shift=jnp.asarray(rules.comparable.shift, jnp.float32),
        )
        suspect = rules.suspect
        if suspect is not None and _is_broken(posterior, bounds, suspect, rules.zeta):
            return [Query(exact_point(np.asarray(suspect.unit), space), suspect.level - 1, {CHECKS: True})]
        found = _choose(key, posterior, bounds, Pending.of(pending, space.dim), space=space, search=self.search)
        return [found.query(space)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bounds:
    """Hold the numbers of the bounds, with zeta from each level to the top; zeta and gamma of the top are zero."""

    beta: Float[Array, ""]
    zeta: Float[Array, " m"]
    gamma: Float[Array, " m"]
    scale: Float[Array, " m"]
    shift: Float[Array, " m"]

    def upper(self, mean: Float[Array, "q m"], std: Float[Array, "q m"]) -> Float[Array, " q"]:
        """Return the upper confidence bound of the top level, from the moments of standardised values."""
        each = self.scale[None] * (mean + jnp.sqrt(self.beta) * std) + self.shift[None] + self.zeta[None]
        return jnp.min(each, axis=1)

    def uncertain(self, std: Float[Array, "q m"]) -> Bool[Array, "q m"]:
        """Return which levels are worth a query; the top always is."""
        return (self.scale[None] * jnp.sqrt(self.beta) * std > self.gamma[None]).at[:, -1].set(True)


@partial(jax.jit, static_argnames=("space", "search"))
def _choose(
    key: PRNGKeyArray, posterior: Posterior, bounds: Bounds, pending: Pending, *, space: Space, search: CandidateSearch
) -> Candidate:
    key_optimum, key_search = jax.random.split(key)
    _, taken = in_flight(posterior, pending)

    def score(unit: Float[Array, "q d"]) -> Float[Array, "q 1"]:
        at = moments(posterior.draw(unit), taken)
        return bounds.upper(at.mean, jnp.sqrt(at.variance))[:, None]

    # Where drawn functions are best, the bound is high too.
    optima = find_optima(key_optimum, posterior, space=space, search=search).unit
    stride = max(1, optima.shape[0] // 64)
    place = best_candidate(key_search, score, optima[::stride].astype(jnp.float32), space=space, search=search)
    at = moments(posterior.draw(place.unit[None]), taken)
    level = jnp.argmax(bounds.uncertain(jnp.sqrt(at.variance))[0]).astype(jnp.int32)
    return replace(place, level=level)


@jax.jit
def _means(posterior: Posterior, bounds: Bounds, unit: Float[Array, "1 d"]) -> Float[Array, " m"]:
    return bounds.scale * jnp.mean(posterior.draw(unit)[:, 0], axis=0) + bounds.shift


def _is_broken(posterior: Posterior, bounds: Bounds, suspect: Suspect, zeta: tuple[float, ...]) -> bool:
    """Return whether an observation is farther from the predicted level below than the bound allows."""
    mean = _means(posterior, bounds, jnp.asarray([suspect.unit], jnp.float32))[suspect.level - 1]
    return abs(suspect.value - float(mean)) > zeta[suspect.level - 1]


def _is_checked(trial: TrialRecord, trials: Sequence[TrialRecord]) -> bool:
    """Return whether the level below was queried at the point of a trial."""
    below = [other.query.unit for other in trials if other.query.level == trial.query.level - 1]
    return is_among(trial.query.unit, below)


def _split(history: History, num_startup: int) -> tuple[list[TrialRecord], list[TrialRecord]]:
    """Return the first `num_startup` trials of each level, and the rest; checks are not part of the search."""
    start: list[TrialRecord] = []
    later: list[TrialRecord] = []
    counts = [0] * history.problem.ladder.num_levels
    for trial in history.kept:
        counts[trial.query.level] += 1
        if counts[trial.query.level] <= num_startup:
            start.append(trial)
        elif CHECKS not in trial.query.tag:
            later.append(trial)
    return start, later


def _compared(history: History, data: Dataset, start: Sequence[TrialRecord]) -> tuple[Comparable, dict[int, float]]:
    """Return the map from standardised to comparable values, and the comparable value of every trial with a value."""
    first = Dataset.of_trials(history, [trial for trial in start if trial.outcome]).scales
    both = list(zip(data.scales, first, strict=True))
    scale = tuple(float(now.unit / then.unit) for now, then in both)
    shift = tuple(float((now.shift - then.shift) / then.unit) for now, then in both)
    values: dict[int, float] = {}
    for trial in history.done:
        values[trial.number] = first[trial.query.level].standardised(history.problem.sign * (trial.value or 0.0))
    return Comparable(scale, shift), values


def _zeta(history: History, values: dict[int, float]) -> tuple[float, ...]:
    """Return the bounds between neighbours.

    They begin at zero. An observation that breaks a bound raises it, and all others to at least as much.
    """
    zeta = [0.0] * history.problem.ladder.top
    seen: list[TrialRecord] = []
    for trial in history.done:
        level = trial.query.level
        for lower, other in ((level - 1, level - 1), (level, level + 1)):
            same = [old for old in seen if old.query.level == other and is_among(old.query.unit, [trial.query.unit])]
            if same and abs(values[trial.number] - values[same[-1].number]) > zeta[lower]:
                zeta[lower] = ZETA_MARGIN * abs(values[trial.number] - values[same[-1].number])
                zeta = [max(each, zeta[lower]) for each in zeta]
        seen.append(trial)
    return tuple(zeta)


def _gamma(history: History, later: Sequence[TrialRecord], start: Sequence[float]) -> tuple[float, ...]:
    """Return the thresholds: a small share of the range of the starts.

    A threshold grows if the search stays at low levels for longer than the costs justify.
    """
    costs, top = history.priced.ladder.costs, history.problem.ladder.top
    span = max(start) - min(start) if len(start) > 1 else 1.0
    gamma = [GAMMA_SHARE * span or GAMMA_SHARE] * top
    stays = 0
    for trial in later:
        level = trial.query.level
        stays = 0 if level == top else stays + 1
        if level < top and stays >= costs[level + 1] / costs[level]:
            gamma[level] *= GAMMA_GROWTH
            gamma = [max(each, gamma[level]) for each in gamma]
            stays = 0
    return tuple(gamma)
