"""Describe one Gaussian process over all levels: its hyperparameters, their priors and their evidence.

Level m is a sum over processes: the loadings L[m, q] times process q, for q up to m. A process enters at its level, and
levels below do not contain it. So a higher level is a linear function of the lower ones plus something of its own.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, get_lapack_funcs

from bmbo.history.host_observations import Floats, Observations
from bmbo.surrogates.exact_gp.correlations import KERNELS
from bmbo.surrogates.exact_gp.distances import squares

JITTER = 1e-8
"""Least variance of an observation. Values are of order one."""
REFUSED = 1e10
"""Height of hyperparameters that cannot be used."""
FARTHEST = 15.0
"""Largest distance of a hyperparameter from its prior mean. Beyond it, exponentials overflow."""


@dataclass(frozen=True)
class Prior:
    """Describe the priors of the hyperparameters. All but the links' are Gaussian, and values are standardised.

    A link has a mixture of two Gaussians. With the first, a level resembles those below it. The second has its centre
    at zero, because a cheap level can be useless, or be large where the target is small.

    Attributes:
        length: mean logarithm of a length-scale, less half the logarithm of the number of parameters.
        length_sd: deviation of each parameter's logarithm from what all parameters share.
        scale_sd: deviation of what all parameters share.
        factor_sd: deviation of the logarithm by which all length-scales of a higher process differ from the first.
        link: mean loading of a level on the process of a lower one, if the two levels resemble each other.
        link_sd: deviation of that loading.
        unlike: prior probability that they do not; 0 leaves the first Gaussian alone.
        unlike_sd: deviation of the loading from zero in that case.
        own: median loading of a level above the first on the process that enters with it.
        own_sd: deviation of the logarithm of that loading.
        noise: median variance of the noise.
        noise_sd: deviation of its logarithm.
        shift: variance of a constant that all levels share.
        level_shift: variance of a constant of each level.
    """

    length: float = -0.8
    length_sd: float = 0.4
    scale_sd: float = 0.5
    factor_sd: float = 0.5
    link: float = 0.8
    link_sd: float = 0.4
    unlike: float = 0.2
    unlike_sd: float = 0.8
    own: float = 0.5
    own_sd: float = 1.0
    noise: float = 1e-4
    noise_sd: float = 2.5
    shift: float = 1e-9
    level_shift: float = 1e-9


@dataclass(frozen=True)
class Hyperparameters:
    """Hold one set of hyperparameters in a readable form.

    Attributes:
        kernel: name of the correlation.
        log_length: logarithm of the length-scale of each parameter, [p].
        own: logarithm of each process's factor on all length-scales, [m]; 0 for the first.
        loading: of levels on processes, a lower triangle, [m m].
        noise: variance of an observation at each level, [m].
    """

    kernel: str
    log_length: Floats
    own: Floats
    loading: Floats
    noise: Floats


class Layout:
    """Place the hyperparameters in one vector: length-scales, factors, lower triangle of the loadings, noise."""

    def __init__(self, num_params: int, num_levels: int, prior: Prior) -> None:
        self.num_params, self.num_levels, self.prior = num_params, num_levels, prior
        self.rows, self.columns = np.tril_indices(num_levels)
        self.diagonal = self.rows == self.columns
        self.first = num_params + num_levels - 1
        self.links = self.first + np.flatnonzero(~self.diagonal)
        self.noises = self.first + len(self.rows)
        # Values are standardised, so that the first loading is about one.
        own = np.where(self.rows == 0, 0.0, math.log(prior.own))
        centre = prior.length + 0.5 * math.log(num_params)
        self.mean: Floats = np.concatenate(
            [
                np.full(num_params, centre),
                np.zeros(num_levels - 1),
                np.where(self.diagonal, own, prior.link),
                np.full(num_levels, math.log(prior.noise)),
            ]
        )
        self.sd: Floats = np.concatenate(
            [
                np.full(num_params, prior.length_sd),
                np.full(num_levels - 1, prior.factor_sd),
                np.where(self.diagonal, prior.own_sd, prior.link_sd),
                np.full(num_levels, prior.noise_sd),
            ]
        )

    def penalty(self, theta: Floats) -> tuple[float, Floats]:
        """Return minus the log density of the prior, up to a constant, and its gradient."""
        off = theta - self.mean
        gradient = off / self.sd**2
        # Length-scales share a deviation: the inverse of a diagonal plus a constant matrix, by Sherman and Morrison.
        own, shared = self.prior.length_sd**2, self.prior.scale_sd**2
        lengths = slice(0, self.num_params)
        gradient[lengths] -= shared / (own * (own + self.num_params * shared)) * off[lengths].sum()
        gradient[self.links] = 0.0
        height = 0.5 * float(off @ gradient)
        of_links, gradient[self.links] = self._penalty_of_links(theta[self.links])
        return height + of_links, gradient

    def _penalty_of_links(self, link: Floats) -> tuple[float, Floats]:
        """Return minus the log density of the links, up to a constant, and its gradient."""
        prior = self.prior
        slope_alike, slope_unlike = (link - prior.link) / prior.link_sd**2, link / prior.unlike_sd**2
        alike = math.log1p(-prior.unlike) - 0.5 * (link - prior.link) * slope_alike
        if prior.unlike == 0.0:
            return -float(alike.sum()), slope_alike
        unlike = math.log(prior.unlike * prior.link_sd / prior.unlike_sd) - 0.5 * link * slope_unlike
        both = np.logaddexp(alike, unlike)
        share = np.exp(alike - both)
        return -float(both.sum()), share * slope_alike + (1.0 - share) * slope_unlike

    def read(self, theta: Floats, kernel: str) -> Hyperparameters:
        """Return the readable form of a vector."""
        own = np.concatenate([[0.0], theta[self.num_params : self.first]])
        loading = np.zeros((self.num_levels, self.num_levels))
        entries = theta[self.first : self.noises]
        loading[self.rows, self.columns] = np.where(self.diagonal, np.exp(np.minimum(entries, 20.0)), entries)
        noise = np.exp(np.minimum(theta[self.noises :], 20.0)) + JITTER
        return Hyperparameters(kernel, theta[: self.num_params], own, loading, noise)


class Evidence:
    """Score hyperparameters on observations: minus the log posterior density, up to a constant, with its gradient.

    Rows are sorted by level, and each process works on the rows from its level on. Most rows are cheap ones, so that
    most of the work is done once and not once for each level.
    """

    def __init__(
        self, observations: Observations, layout: Layout, kernel: str, distances: Floats | None = None
    ) -> None:
        """Prepare the scores; `distances` are `squares` of the observations, where several kernels share them."""
        self.layout, self.kernel, self.num = layout, kernel, len(observations)
        order = np.argsort(observations.level, kind="stable")
        self.level, self.value = observations.level[order], observations.value[order]
        self.first = np.searchsorted(self.level, np.arange(layout.num_levels))
        if distances is None:
            distances = squares(observations.space, observations.unit)
        self.squares = distances[:, order][:, :, order].reshape(layout.num_params, -1)
        self.member = (self.level[:, None] == np.arange(layout.num_levels)).astype(np.float64)
        self.constant = layout.prior.shift + layout.prior.level_shift * (self.member @ self.member.T)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return the height and its gradient; the height is REFUSED where the covariance cannot be factorised."""
        layout = self.layout
        if np.any(np.abs(theta - layout.mean) > FARTHEST):
            return REFUSED, np.zeros_like(theta)
        hyper = layout.read(theta, self.kernel)
        weight = np.exp(-2.0 * hyper.log_length)
        square = (weight @ self.squares).reshape(self.num, self.num)
        total = self.constant.copy()
        total[np.diag_indices(self.num)] += hyper.noise[self.level]
        parts: list[tuple[Floats, Floats, Floats, Floats]] = []
        for place, first in enumerate(self.first):
            load = hyper.loading[self.level[first:], place]
            factor = math.exp(-2.0 * hyper.own[place])
            correlation, slope = KERNELS[self.kernel](square[first:, first:] * factor)
            outer = np.outer(load, load)
            total[first:, first:] += outer * correlation
            parts.append((correlation, slope, load, outer * factor))
        try:
            lower = cholesky(total, lower=True, check_finite=False, overwrite_a=True)
        except (LinAlgError, ValueError):
            return REFUSED, np.zeros_like(theta)
        solved = cho_solve((lower, True), self.value, check_finite=False)
        height = 0.5 * float(self.value @ solved) + float(np.log(np.diag(lower)).sum())
        inverse = get_lapack_funcs(("potri",), (lower,))[0](lower, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        by_covariance = 0.5 * (inverse - np.outer(solved, solved))
        penalty, by_penalty = layout.penalty(theta)
        return height + penalty, self._gradient(hyper, square, parts, by_covariance) + by_penalty

    def _gradient(
        self,
        hyper: Hyperparameters,
        square: Floats,
        parts: list[tuple[Floats, Floats, Floats, Floats]],
        by_covariance: Floats,
    ) -> Floats:
        """Return the gradient of the height without the prior, from its derivatives by the covariances [n n]."""
        layout = self.layout
        gradient = np.zeros_like(layout.mean)
        by_square = np.zeros_like(by_covariance)
        by_loading = np.zeros((layout.num_levels, layout.num_levels))
        for place, (correlation, slope, load, outer) in enumerate(parts):
            first = self.first[place]
            block = by_covariance[first:, first:]
            part = block * outer * slope
            by_square[first:, first:] += part
            if place:
                gradient[layout.num_params + place - 1] = np.vdot(part, square[first:, first:])
            by_loading[:, place] = self.member[first:].T @ (2.0 * ((block * correlation) @ load))
        gradient[: layout.num_params] = (self.squares @ by_square.ravel()) * np.exp(-2.0 * hyper.log_length)
        chain = np.where(layout.diagonal, hyper.loading[layout.rows, layout.columns], 1.0)
        gradient[layout.first : layout.noises] = by_loading[layout.rows, layout.columns] * chain
        gradient[layout.noises :] = (self.member.T @ np.diag(by_covariance)) * (hyper.noise - JITTER)
        return gradient
