"""Score hyperparameters of the process over points and places, with their gradient."""

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, get_lapack_funcs

from bmbo.history.host_observations import Floats, Observations
from bmbo.surrogates.exact_gp.correlations import KERNELS, matern52
from bmbo.surrogates.exact_gp.distances import squares
from bmbo.surrogates.fidelity_gp.process import JITTER, SHIFT, FidelityHyperparameters, FidelityPrior

REFUSED = 1e10
"""Height of hyperparameters that cannot be used."""
FARTHEST = 15.0
"""Largest distance of a hyperparameter from its prior mean. Beyond it, exponentials overflow."""
OWN_LENGTH, TARGET, FADING, OWN, RISE, PLACE_LENGTH, COMMON, LOW_NOISE, TOP_NOISE = range(9)
"""Places of the hyperparameters after the length-scales."""


class FidelityLayout:
    """Place the hyperparameters in one vector: the length-scales, and then the nine others."""

    def __init__(self, num_params: int, prior: FidelityPrior) -> None:
        self.num_params, self.prior = num_params, prior
        others = [prior.own_length, prior.target, prior.fading, prior.own, prior.rise, prior.place_length]
        others += [prior.common, prior.noise, prior.noise]
        centre = prior.length + 0.5 * math.log(num_params)
        self.mean: Floats = np.array([centre] * num_params + [mean for mean, _ in others])
        self.sd: Floats = np.array([prior.length_sd] * num_params + [sd for _, sd in others])

    def penalty(self, theta: Floats) -> tuple[float, Floats]:
        """Return minus the log density of the prior, up to a constant, and its gradient."""
        off = theta - self.mean
        gradient = off / self.sd**2
        # Length-scales share a deviation: the inverse of a diagonal plus a constant matrix, by Sherman and Morrison.
        own, shared = self.prior.length_sd**2, self.prior.scale_sd**2
        lengths = slice(0, self.num_params)
        gradient[lengths] -= shared / (own * (own + self.num_params * shared)) * off[lengths].sum()
        return 0.5 * float(off @ gradient), gradient

    def read(self, theta: Floats, kernel: str) -> FidelityHyperparameters:
        """Return the readable form of a vector."""
        other = theta[self.num_params :]
        return FidelityHyperparameters(
            kernel=kernel,
            log_length=theta[: self.num_params],
            own_length=float(other[OWN_LENGTH]),
            target=math.exp(other[TARGET]),
            fading=float(other[FADING]),
            own=math.exp(other[OWN]),
            rise=math.exp(other[RISE]),
            place_length=float(other[PLACE_LENGTH]),
            common=math.exp(other[COMMON]),
            low_noise=float(other[LOW_NOISE]),
            top_noise=float(other[TOP_NOISE]),
        )


class FidelityEvidence:
    """Score hyperparameters on observations: minus the log posterior density, up to a constant, with its gradient."""

    def __init__(
        self, observations: Observations, layout: FidelityLayout, kernel: str, distances: Floats | None = None
    ) -> None:
        """Prepare the scores; `distances` are `squares` of the observations, where several kernels share them."""
        self.layout, self.kernel, self.num = layout, kernel, len(observations)
        self.value = observations.value
        if distances is None:
            distances = squares(observations.space, observations.unit)
        self.squares = distances.reshape(layout.num_params, -1)
        self.place = observations.places[observations.level]
        self.rest = 1.0 - self.place
        # Where nothing is left of the own part, its logarithm counts as 0, because its factor is 0.
        self.log_rest = np.log(np.where(self.rest > 0.0, self.rest, 1.0))
        self.apart = (self.place[:, None] - self.place) ** 2

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return the height and its gradient; the height is REFUSED where the covariance cannot be factorised."""
        layout = self.layout
        if np.any(np.abs(theta - layout.mean) > FARTHEST):
            return REFUSED, np.zeros_like(theta)
        hyper = layout.read(theta, self.kernel)
        square = (np.exp(-2.0 * hyper.log_length) @ self.squares).reshape(self.num, self.num)
        own_square, near_square = math.exp(-2.0 * hyper.own_length), math.exp(-2.0 * hyper.place_length)
        correlation, slope = KERNELS[self.kernel](square)
        own_correlation, own_slope = KERNELS[self.kernel](square * own_square)
        near, near_slope = matern52(self.apart * near_square)
        target, own = hyper.target_factor(self.place), hyper.own_factor(self.place)
        targets, owns = np.outer(target, target), np.outer(own, own)
        of_target = targets * correlation
        of_own = owns * own_correlation * near
        of_common = hyper.common**2 * near
        noise = hyper.noise(self.place)
        total = of_target + of_own + of_common + SHIFT
        total[np.diag_indices(self.num)] += noise
        try:
            lower = cholesky(total, lower=True, check_finite=False, overwrite_a=True)
        except (LinAlgError, ValueError):
            return REFUSED, np.zeros_like(theta)
        solved = cho_solve((lower, True), self.value, check_finite=False)
        height = 0.5 * float(self.value @ solved) + float(np.log(np.diag(lower)).sum())
        inverse = get_lapack_funcs(("potri",), (lower,))[0](lower, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        by_total = 0.5 * (inverse - np.outer(solved, solved))
        penalty, gradient = layout.penalty(theta)

        by_own = by_total * owns
        by_own_square = by_own * near * own_slope * own_square
        by_square = by_total * targets * slope + by_own_square
        lengths, first = slice(0, layout.num_params), layout.num_params
        gradient[lengths] += (self.squares @ by_square.ravel()) * np.exp(-2.0 * hyper.log_length)
        on_target, on_own = by_total * of_target, by_total * of_own
        by_near = by_own * own_correlation + by_total * hyper.common**2
        on_noise = np.diag(by_total) * (noise - JITTER)
        gradient[first:] += [
            np.vdot(by_own_square, square),
            2.0 * on_target.sum(),
            -2.0 * float(on_target.sum(1) @ self.rest),
            2.0 * on_own.sum(),
            2.0 * hyper.rise * float(on_own.sum(1) @ self.log_rest),
            np.vdot(by_near * near_slope, self.apart) * near_square,
            2.0 * np.vdot(by_total, of_common),
            float(on_noise @ self.rest),
            float(on_noise @ self.place),
        ]
        return height + penalty, gradient
