"""Measure the information in a batch of outputs about the optimum f*: equations (5) to (7) of the paper, from draws.

Everything follows from one fact: for jointly Gaussian variables the mutual information is -1/2 log(1 - R^2), where R^2
is the share of the variance of f* that a linear regression on the outputs of the batch explains.
"""

import math
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float
from scipy.special import betainccinv

JITTER = 10.0  # in units of rounding, added to correlation matrices, which repeated places make singular
KNOWN = 100.0  # in units of rounding: a variance below this share of its old value is only rounding


def moments(draws: Float[Array, "s k"]) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """Return mean and covariance over the draws, with 1/(L - 1), as above equation (6)."""
    centred = centre(draws)
    return jnp.mean(draws, axis=0), centred.T @ centred


def centre(draws: Float[Array, " s *k"]) -> Float[Array, " s *k"]:
    """Return draws less their mean, scaled so that sums of products over draws are covariances."""
    return (draws - jnp.mean(draws, axis=0, keepdims=True)) / math.sqrt(draws.shape[0] - 1)


def gaussian_information(covariance: Float[Array, "k k"]) -> Float[Array, ""]:
    """Return the information in nats between the last of jointly Gaussian variables and all others, equation (6)."""
    correlation = _correlation(covariance)
    factor = jnp.linalg.cholesky(correlation[:-1, :-1])
    explained = solve_triangular(factor, correlation[:-1, -1], lower=True)
    # log|Sigma| - log|Sigma_ff| - log sigma_** is the logarithm of the share that the others leave unexplained. It is
    # the last squared pivot; using the pivot avoids the difference of two large logarithms.
    return -0.5 * jnp.log(jnp.maximum(1.0 - jnp.sum(explained**2), _rounding(covariance)))


def batch_information(
    outputs: Float[Array, "s q"], optimum: Float[Array, " s"], noise: Float[Array, " q"] | None = None
) -> Float[Array, ""]:
    """Return the information in nats between a batch and f*; with noise, for what is observed there: y = f + noise."""
    _, covariance = moments(jnp.concatenate([outputs, optimum[:, None]], axis=1))
    if noise is not None:
        covariance = covariance + jnp.diag(jnp.append(noise, 0.0))
    return gaussian_information(covariance)


def _correlation(covariance: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """Return a covariance with unit diagonal and jitter; a constant variable correlates with nothing."""
    scale = jnp.sqrt(jnp.maximum(jnp.diag(covariance), jnp.finfo(covariance.dtype).tiny))
    identity = jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    jittered = (1.0 + JITTER * _rounding(covariance)) * identity
    return jnp.where(identity > 0.0, jittered, covariance / scale[:, None] / scale[None])


def _rounding(array: Array) -> float:
    return float(jnp.finfo(array.dtype).eps)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Taken:
    """Hold the places that are already in the batch, ready to score one more.

    Attributes:
        centred: outputs at these places, centred.
        whiten: matrix that makes these outputs independent and of unit variance; zero for places that are not taken.
        optimum: f*, centred.
        explained: covariance of f* with the whitened outputs.
        remaining: variance of f* given the taken outputs.
        variance: variance of f* without them.
    """

    centred: Float[Array, "s k"]
    whiten: Float[Array, "k k"]
    optimum: Float[Array, " s"]
    explained: Float[Array, " k"]
    remaining: Float[Array, ""]
    variance: Float[Array, ""]

    @property
    def information(self) -> Float[Array, ""]:
        """Return the information in nats between the taken outputs and f*."""
        known = self.variance <= jnp.finfo(self.variance.dtype).tiny
        share = self.remaining / jnp.where(known, 1.0, self.variance)
        return jnp.where(known, 0.0, -0.5 * jnp.log(jnp.maximum(share, _rounding(share))))


def take(
    centred: Float[Array, "s k"], noise: Float[Array, " k"], mask: Bool[Array, " k"], optimum: Float[Array, " s"]
) -> Taken:
    """Return f* conditioned on the places whose mask is set, from centred outputs; other places have no effect."""
    centred = jnp.where(mask[None], centred, 0.0)
    covariance = centred.T @ centred + jnp.diag(jnp.where(mask, noise, 0.0))
    scale = jnp.sqrt(jnp.maximum(jnp.diag(covariance), jnp.finfo(centred.dtype).tiny))
    # The inverse of the factor first: XLA compiles a solve for hundreds of columns five times slower than for few.
    factor = jnp.linalg.cholesky(_correlation(covariance))
    inverse = solve_triangular(factor, jnp.eye(factor.shape[0], dtype=factor.dtype), lower=True)
    whiten = jnp.where(mask[None], inverse / scale[None], 0.0)
    explained = whiten @ (centred.T @ optimum)
    total = jnp.sum(optimum**2)
    return Taken(
        centred=centred,
        whiten=whiten,
        optimum=optimum,
        explained=explained,
        remaining=jnp.maximum(total - jnp.sum(explained**2), 0.0),
        variance=total,
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Products:
    """Hold all that scoring candidates needs from their draws.

    Attributes:
        variance: variance of what would be observed at each candidate.
        with_optimum: covariance of each candidate with f*.
        with_places: covariance of each candidate with each place of a batch.
    """

    variance: Float[Array, " j"]
    with_optimum: Float[Array, " j"]
    with_places: Float[Array, "k j"]

    @classmethod
    def of(
        cls,
        centred: Float[Array, "s j"],
        noise: Float[Array, " j"],
        places: Float[Array, "s k"],
        optimum: Float[Array, " s"],
    ) -> "Products":
        """Return the products from centred draws."""
        return cls(jnp.sum(centred**2, axis=0) + noise, optimum @ centred, places.T @ centred)


def gain(taken: Taken, centred: Float[Array, "s j"], noise: Float[Array, " j"]) -> Float[Array, " j"]:
    """Return the information in nats that each candidate alone adds to the taken places, from its centred outputs."""
    return gain_of_products(taken, Products.of(centred, noise, taken.centred, taken.optimum))


def gain_of_products(taken: Taken, products: Products) -> Float[Array, " j"]:
    """Return the gain from products over the draws; `with_places` may have rows of places that are not taken.

    By the chain rule, I(T + c) = I(T) - 1/2 log(1 - rho^2), where rho is the partial correlation of candidate and f*
    given T. A candidate that the taken places determine adds nothing. Products of candidates with unchanged places are
    computed only once: for k places and j candidates this costs k^2 j and not k s j, and k is far below s.
    """
    projected = taken.whiten @ products.with_places
    residual = products.variance - jnp.sum(projected**2, axis=0)
    covariance = products.with_optimum - taken.explained @ projected
    rounding = _rounding(projected)
    negligible = KNOWN * rounding
    open_ = (residual > negligible * products.variance) & (taken.remaining > negligible * taken.variance)
    squared = jnp.where(open_, covariance**2 / jnp.where(open_, residual * taken.remaining, 1.0), 0.0)
    return -0.5 * jnp.log1p(-jnp.minimum(squared, 1.0 - JITTER * rounding))


def score(
    information: Float[Array, "*j"], cost: Float[Array, "*j"], num_new: int, chance: Float[Array, ""] | float
) -> Float[Array, "*j"]:
    """Return equation (7): information of the new places, less what chance alone would show, per cost."""
    net = information - num_new * chance
    # A negative number divided by the cost would favour expensive places. Undivided it stays below every positive
    # score, both meet at zero, and negative scores keep the order of the information.
    return jnp.where(net > 0.0, net / cost, net)


@cache
def chance_information(num_draws: int, num_candidates: int) -> float:
    """Return the expected information in nats of the best of many independent useless places, estimated from draws.

    It is about log(num_candidates) / num_draws. Outputs of smooth functions at near points are not independent, so this
    is an upper bound for them; `shifted_information` measures the level itself.
    """
    # Under independence R^2 is Beta(1/2, (L - 2) / 2). The mean of the largest of K is the mean of its quantiles at
    # u^(1/K) over uniform u, by midpoints. 4096 of them reach far enough into the tail for three digits.
    midpoints = (np.arange(4096) + 0.5) / 4096
    upper = -np.expm1(np.log(midpoints) / num_candidates)
    squared = np.asarray(betainccinv(0.5, (num_draws - 2) / 2, upper), dtype=np.float64)
    return float(np.mean(-0.5 * np.log1p(-squared)))


def shifted_draws(draws: Float[Array, " s *k"], num_shifts: int) -> Float[Array, " i s *k"]:
    """Return copies of draws in which each draw has moved to the place of another, for estimates of chance.

    The moves are shifts around the circle of draws and not permutations. They keep the dependence between neighbouring
    draws of a chain, which raises the chance level as it raises the estimates.
    """
    num_draws = draws.shape[0]
    offset = 1 + np.arange(num_shifts) * (num_draws - 1) // num_shifts
    return draws[(np.arange(num_draws)[None] + offset[:, None]) % num_draws]


def shifted_information(
    centred: Float[Array, "s j"], noise: Float[Array, " j"], optimum: Float[Array, " s"], *, num_shifts: int
) -> Float[Array, ""]:
    """Return the chance level: the mean information in nats of the best candidate when f* is moved to other draws.

    All inputs are centred.
    """
    moved = shifted_draws(optimum, num_shifts)
    tiny = jnp.finfo(centred.dtype).tiny
    variance = jnp.maximum(jnp.sum(centred**2, axis=0) + noise, tiny)
    total = jnp.maximum(jnp.sum(optimum**2), tiny)
    squared = jnp.max((moved @ centred) ** 2 / (variance[None] * total), axis=1)
    return jnp.mean(-0.5 * jnp.log1p(-jnp.minimum(squared, 1.0 - JITTER * _rounding(centred))))
