"""Combine several surrogates: the better one predicts held-out top-level data, the more functions are drawn from it.

The weights are pseudo-BMA+ (Yao, Vehtari, Simpson and Gelman 2018): a softmax of the summed held-out log densities,
averaged over the Bayesian bootstrap. The bootstrap keeps the weights of several members up until the data decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import NDArray
from scipy.special import softmax

from bmbo.history import Dataset
from bmbo.problem.number_checks import whole_number
from bmbo.protocols import Posterior, Surrogate

Floats = NDArray[np.float64]

NUM_BOOTSTRAPS = 1000
"""Bootstraps of the held-out densities: with this many, the mean softmax is known to a few hundredths."""

SMALLEST_SHARE = 0.02
"""Smallest share of the draws for every member: no member is certainly useless, and its draws add variety to a
batch."""

LOWEST_DENSITY = -20.0
"""Smallest log density of a held-out value: one extreme value must not decide against all others."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MixturePosterior:
    """Hold functions chosen from those of several posteriors.

    Attributes:
        members: the posteriors, each with at least as many functions as the mixture.
        chosen: index of every function in the list of the functions of all members, member after member; no index
            occurs twice.
        counts: how many functions come from each member.
    """

    members: tuple[Posterior, ...]
    chosen: Int[Array, " s"]
    counts: Int[Array, " k"]

    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        parts = [self._unless_unused(place, lambda m=member: m.draw(unit)) for place, member in enumerate(self.members)]
        return jnp.concatenate(parts)[self.chosen]

    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        parts: list[Float[Array, "t q m"]] = []
        first = 0
        for place, member in enumerate(self.members):
            num = jax.eval_shape(member.draw, unit[0]).shape[0]
            # Functions that were not chosen are evaluated at the points of the first function, and then left out.
            asked = (
                jnp.zeros(num, jnp.int32)
                .at[self.chosen - first]
                .set(jnp.arange(len(self.chosen), dtype=jnp.int32), mode="drop", wrap_negative_indices=False)
            )
            own = unit[asked]
            parts.append(self._unless_unused(place, lambda m=member, own=own: m.draw_each(own)))
            first += num
        return jnp.concatenate(parts)[self.chosen]

    def _unless_unused(self, place: int, draw: Any) -> Float[Array, "t q m"]:
        shape = jax.eval_shape(draw)
        return jax.lax.cond(self.counts[place] > 0, draw, lambda: jnp.zeros(shape.shape, shape.dtype))

    @property
    def noise(self) -> Float[Array, " m"]:
        """See `Posterior`."""
        each = jnp.stack([member.noise for member in self.members])
        shares = self.counts.astype(each.dtype) / len(self.chosen)
        return jnp.sum(shares[:, None] * each, axis=0)


@dataclass(frozen=True)
class MixtureInfo:
    """Describe what a fit found.

    Attributes:
        weights: weights of the members.
        log_density: mean held-out log density of each member at the top level; NaN if nothing could be held out.
        members: what the fit of each member reports.
    """

    weights: tuple[float, ...]
    log_density: tuple[float, ...]
    members: tuple[Any, ...]


@dataclass(frozen=True)
class MixtureWarm:
    """Hold what the next fit starts from: the warm start of every member, for all data and for each fold."""

    whole: tuple[Any, ...]
    folds: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Mixture:
    """Weigh surrogates by how well they predict data that they have not seen.

    The i-th observation of the top level is held out in fold i modulo the number of folds. So data keep their folds
    when more arrive, and the warm start of a fold has never seen what it must predict.

    Args:
        members: the surrogates; all are fitted, so the mixture costs as much as all together, times one plus the number
            of folds.
        num_folds: parts of the top level's data that are held out in turn.
    """

    members: tuple[Surrogate, ...]
    num_folds: int = 4

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("a mixture needs at least one member, got none")
        whole_number("num_folds", self.num_folds, at_least=2)

    def fit(
        self, key: PRNGKeyArray, data: Dataset, warm: MixtureWarm | None = None
    ) -> tuple[MixturePosterior, MixtureWarm, MixtureInfo]:
        """See `Surrogate`."""
        key_fit, key_weights = jax.random.split(key)
        keys = [jax.random.fold_in(key_fit, place) for place in range(len(self.members))]
        starts: Sequence[Any] = [None] * len(self.members) if warm is None else warm.whole
        fits = [
            member.fit(key_member, data, start)
            for member, key_member, start in zip(self.members, keys, starts, strict=True)
        ]
        posteriors = tuple(posterior for posterior, _, _ in fits)
        density, folds = self._held_out(keys, data, () if warm is None else warm.folds)
        weights = weigh(np.random.default_rng(np.asarray(jax.random.bits(key_weights, (4,)))), density)
        mean = tuple(float(each) for each in np.mean(density, axis=1)) if density.size else (np.nan,) * len(fits)
        info = MixtureInfo(tuple(float(weight) for weight in weights), mean, tuple(each for _, _, each in fits))
        last = MixtureWarm(tuple(each for _, each, _ in fits), folds)
        return _chosen(posteriors, weights, data.unit), last, info

    def _held_out(
        self, keys: Sequence[PRNGKeyArray], data: Dataset, warm: Sequence[tuple[Any, ...]]
    ) -> tuple[Floats, tuple[tuple[Any, ...], ...]]:
        """Return the log density of every top-level value under each member fitted without it, and the warm starts."""
        top = data.rows(data.num_levels - 1)
        real = np.flatnonzero(np.asarray(data.mask[top]))
        # With fewer values, a fold would leave a fit without top-level data, and there would be nothing to compare.
        if len(self.members) == 1 or len(real) < self.num_folds:
            return np.zeros((len(self.members), 0)), ()
        density = np.zeros((len(self.members), len(real)))
        ends: list[tuple[Any, ...]] = []
        for fold in range(self.num_folds):
            held = real[np.arange(len(real)) % self.num_folds == fold]
            without = replace(data, mask=data.mask.at[held + (top.start or 0)].set(False))
            last: list[Any] = []
            for place, (member, key) in enumerate(zip(self.members, keys, strict=True)):
                start = warm[fold][place] if warm else None
                posterior, end, _ = member.fit(jax.random.fold_in(key, 1 + fold), without, start)
                each = np.asarray(_log_density(posterior, data.unit[top], data.value[top]), np.float64)
                density[place, np.isin(real, held)] = each[held]
                last.append(end)
            ends.append(tuple(last))
        return density, tuple(ends)


def weigh(rng: np.random.Generator, density: Floats) -> Floats:
    """Return the weights of k members from log densities [k n] of held-out values; equal weights if there are none."""
    num_members, num = density.shape
    if num == 0:
        return np.full(num_members, 1.0 / num_members)
    finite = np.where(np.isfinite(density), np.maximum(density, LOWEST_DENSITY), LOWEST_DENSITY)
    bootstraps = rng.dirichlet(np.ones(num), NUM_BOOTSTRAPS)
    return np.mean(softmax(num * bootstraps @ finite.T, axis=1), axis=0)


def _chosen(posteriors: tuple[Posterior, ...], weights: Floats, unit: Float[Array, "n d"]) -> MixturePosterior:
    """Return as many functions as the smallest member has, from each member in proportion to its weight."""
    nums = [jax.eval_shape(posterior.draw, unit[:1]).shape[0] for posterior in posteriors]
    total = min(nums)
    floor = min(SMALLEST_SHARE, 1.0 / len(nums))
    exact = total * (floor + (1.0 - floor * len(nums)) * weights)
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: total - int(np.sum(counts))]] += 1
    places: list[NDArray[np.int64]] = []
    for first, num, count in zip(np.cumsum([0, *nums[:-1]]), nums, counts, strict=True):
        places.append(int(first) + np.arange(count) * num // max(count, 1))
    return MixturePosterior(posteriors, jnp.asarray(np.concatenate(places), jnp.int32), jnp.asarray(counts, jnp.int32))


@jax.jit
def _log_density(posterior: Posterior, unit: Float[Array, "n d"], value: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return the log density of top-level values, under a Gaussian with the moments of the draws plus the noise."""
    drawn = posterior.draw(unit)[..., -1]
    variance = jnp.var(drawn, axis=0) + posterior.noise[-1]
    return -0.5 * ((value - jnp.mean(drawn, axis=0)) ** 2 / variance + jnp.log(2.0 * jnp.pi * variance))
