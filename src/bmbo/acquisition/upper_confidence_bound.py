"""MF-GP-UCB (Kandasamy et al. 2016): upper confidence bounds of all levels, and the cheapest level that can lower one.

The method supposes |f_m - f_M| <= zeta_m, which makes sense only for levels on one scale. A ladder's levels are on any:
each is standardised by its own random starts, so that the bound is on how levels differ once they have the same mean
and spread. By the starts alone, for later observations crowd where the values are good, at each level in another way.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bmbo.acquisition.batch_state import Pending
from bmbo.acquisition.candidate_search import Place, Search, best_place, find_optima, in_flight, moments
from bmbo.history import History, Query, TrialRecord
from bmbo.history.dataset import scales_of
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Select

CHECKS = "checks"
"""Tag of a query that repeats a point one level below, to see how far apart the levels are."""

GAMMA_SHARE = 0.01  # of the range of the starts: the first gamma of the authors' code
GAMMA_GROWTH = 5.0  # of a gamma that holds the search at cheap levels for too long: the authors' code
ZETA_MARGIN = 2.0  # a bound that was broken becomes this multiple of what broke it, as in the authors' code


@dataclass(frozen=True)
class Scales:
    """What makes the levels comparable: value = scale * standardised + shift, lowest level first."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]


@dataclass(frozen=True)
class Suspect:
    """An observation whose level below has not been observed there: do the two keep to their bound?"""

    unit: tuple[float, ...]
    level: int
    value: float


@dataclass(frozen=True)
class UpperConfidence(Select):
    """Chooses the point with the largest of min over levels of mean + beta^(1/2) std + zeta, and its level.

    The level is the lowest whose beta^(1/2) std is above gamma there. One query at a time; what is in flight counts as
    if its mean had been observed. `given` sets all but the first two from a history.

    Args:
        num_startup: random queries at each level that come first.
        search: how the point is looked for.
        beta: how cautious the bound is.
        zeta: how far each level may be from the next.
        gamma: uncertainty of each level that is worth a query.
        scales: what makes the levels comparable.
        suspect: what may call for a check.
    """

    num_startup: int = 10
    search: Search = field(default_factory=Search)
    beta: float = 1.0
    zeta: tuple[float, ...] = ()
    gamma: tuple[float, ...] = ()
    scales: Scales = field(default_factory=lambda: Scales((), ()))
    suspect: Suspect | None = None

    def given(self, history: History) -> "UpperConfidence":
        """The same with what a history teaches of the bounds."""
        start, later = _split(history, self.num_startup)
        scales, values = _scaled(history, start)
        num_dims = history.problem.space.dim
        checked = {(_point(trial), trial.query.level) for trial in history.trials}
        unchecked = [
            trial
            for trial in later
            if trial.number in values
            and trial.query.level > 0
            and (_point(trial), trial.query.level - 1) not in checked
        ]
        last = unchecked[-1] if unchecked else None
        return replace(
            self,
            beta=0.2 * num_dims * math.log(2.0 * num_dims * (len(later) + 1)),
            zeta=_zeta(history, values),
            gamma=_gamma(history, later, [values[trial.number] for trial in start if trial.number in values]),
            scales=scales,
            suspect=None if last is None else Suspect(last.query.unit, last.query.level, values[last.number]),
        )

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> list[Query]:
        """See `Select`."""
        space, num_levels = problem.space, problem.ladder.num_levels
        zeta, gamma = (jnp.asarray([*bound[: num_levels - 1], 0.0], jnp.float32) for bound in (self.zeta, self.gamma))
        bounds = Bounds(
            beta=jnp.asarray(self.beta, jnp.float32),
            zeta=jnp.cumsum(zeta[::-1])[::-1],
            gamma=gamma,
            scale=jnp.asarray(self.scales.scale or (1.0,) * num_levels, jnp.float32),
            shift=jnp.asarray(self.scales.shift or (0.0,) * num_levels, jnp.float32),
        )
        if self.suspect is not None and num > 0 and self._broken(posterior, bounds, self.suspect):
            unit = space.snap(np.asarray(self.suspect.unit, np.float64))
            return [Query(tuple(float(u) for u in unit), self.suspect.level - 1, {CHECKS: True})]
        taken = Pending.of(pending, space.dim)
        found = _choose(key, posterior, bounds, taken, space=space, search=self.search)
        return [found.query(space)][:num]

    def _broken(self, posterior: Posterior, bounds: "Bounds", suspect: Suspect) -> bool:
        """Whether an observation is farther from what the level below is believed to be than the bound allows."""
        mean = _means(posterior, bounds, jnp.asarray([suspect.unit], jnp.float32))[suspect.level - 1]
        return abs(suspect.value - float(mean)) > self.zeta[suspect.level - 1]


@partial(jax.tree_util.register_dataclass, data_fields=["beta", "zeta", "gamma", "scale", "shift"], meta_fields=[])
@dataclass(frozen=True)
class Bounds:
    """What the bounds are made of, zeta from each level to the top; those of the top are zero."""

    beta: Float[Array, ""]
    zeta: Float[Array, " m"]
    gamma: Float[Array, " m"]
    scale: Float[Array, " m"]
    shift: Float[Array, " m"]

    def upper(self, mean: Float[Array, "q m"], std: Float[Array, "q m"]) -> Float[Array, " q"]:
        """The upper confidence bound of the top level, from the moments of standardised values."""
        each = self.scale[None] * (mean + jnp.sqrt(self.beta) * std) + self.shift[None] + self.zeta[None]
        return jnp.min(each, axis=1)

    def uncertain(self, std: Float[Array, "q m"]) -> Bool[Array, "q m"]:
        """Which levels are worth a query; the top always is."""
        return (self.scale[None] * jnp.sqrt(self.beta) * std > self.gamma[None]).at[:, -1].set(True)


@partial(jax.jit, static_argnames=("space", "search"))
def _choose(
    key: PRNGKeyArray, posterior: Posterior, bounds: Bounds, pending: Pending, *, space: Space, search: Search
) -> Place:
    key_optimum, key_search = jax.random.split(key)
    _, taken = in_flight(posterior, pending)

    def score(unit: Float[Array, "q d"]) -> Float[Array, "q 1"]:
        at = moments(posterior.draw(unit), taken)
        return bounds.upper(at.mean, jnp.sqrt(at.variance))[:, None]

    # Where drawn functions are best the bound is high too.
    optima = find_optima(key_optimum, posterior, space=space, search=search).unit
    stride = max(1, optima.shape[0] // 64)
    place = best_place(key_search, score, optima[::stride].astype(jnp.float32), space=space, search=search)
    at = moments(posterior.draw(place.unit[None]), taken)
    level = jnp.argmax(bounds.uncertain(jnp.sqrt(at.variance))[0]).astype(jnp.int32)
    return replace(place, level=level)


@jax.jit
def _means(posterior: Posterior, bounds: Bounds, unit: Float[Array, "1 d"]) -> Float[Array, " m"]:
    return bounds.scale * jnp.mean(posterior.draw(unit)[:, 0], axis=0) + bounds.shift


def _point(trial: TrialRecord) -> tuple[float, ...]:
    """A point that is the same after a trip through a configuration and back."""
    return tuple(round(coordinate, 6) for coordinate in trial.query.unit)


def _split(history: History, num_startup: int) -> tuple[list[TrialRecord], list[TrialRecord]]:
    """The first so many trials of each level, and the rest; checks are no part of the search."""
    start: list[TrialRecord] = []
    later: list[TrialRecord] = []
    counts = [0] * history.problem.ladder.num_levels
    for trial in history.trials:
        counts[trial.query.level] += 1
        if counts[trial.query.level] <= num_startup:
            start.append(trial)
        elif CHECKS not in trial.query.tag:
            later.append(trial)
    return start, later


def _scaled(history: History, start: Sequence[TrialRecord]) -> tuple[Scales, dict[int, float]]:
    """What maps standardised values to comparable ones, and the comparable values of all trials that have one."""
    first = scales_of(history, [trial for trial in start if trial.outcome])
    both = list(zip(scales_of(history), first, strict=True))
    scale = tuple(now.unit / then.unit for now, then in both)
    shift = tuple((now.shift - then.shift) / then.unit for now, then in both)
    values: dict[int, float] = {}
    for trial in history.done:
        values[trial.number] = first[trial.query.level].standardised(history.problem.sign * (trial.value or 0.0))
    return Scales(scale, shift), values


def _zeta(history: History, values: dict[int, float]) -> tuple[float, ...]:
    """Bounds between neighbours: nothing at first; what breaks one raises it, and all others to at least as much."""
    zeta = [0.0] * history.problem.ladder.top
    seen: dict[tuple[tuple[float, ...], int], float] = {}
    for trial in history.done:
        unit, level = _point(trial), trial.query.level
        for lower, other in ((level - 1, level - 1), (level, level + 1)):
            known = seen.get((unit, other))
            if known is not None and abs(values[trial.number] - known) > zeta[lower]:
                zeta[lower] = ZETA_MARGIN * abs(values[trial.number] - known)
                zeta = [max(each, zeta[lower]) for each in zeta]
        seen[unit, level] = values[trial.number]
    return tuple(zeta)


def _gamma(history: History, later: Sequence[TrialRecord], start: Sequence[float]) -> tuple[float, ...]:
    """Thresholds: a small share of the starts' range; more where the search stays low for longer than costs justify."""
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
