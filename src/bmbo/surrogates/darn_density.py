"""Compute the joint probability of the deep auto-regressive model, equation (4), in two parametrisations.

`SampledModel` is the equation as it stands: every weight is a coordinate.

`CollapsedModel` is the same density in other coordinates. Given the hidden layers h_m, the noise precision tau_m and
the lower outputs, the posterior of the last layer w_m is Gaussian: w_m = mu_m + L_m^-T xi_m with A_m = tau_m Phi^T Phi
+ I = L_m L_m^T. With xi_m as the coordinate in place of w_m, the factors of level m become

    N(w_m | 0, I) prod_n N(y_nm | f_m(x_nm), 1/tau_m) dw_m = p(y_m | h_m, tau_m, f_<m) N(xi_m | 0, I) dxi_m,

which holds for each level, because the lower levels enter only through f_<m. So the posterior is still sampled
exactly, but without the directions in which the last layer and the noise make it stiff: on Branin the usable step was
a hundred times larger.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from bmbo.history import Dataset
from bmbo.surrogates.bayesian_regression import posterior_weights
from bmbo.surrogates.darn_networks import Hidden, Stack, Weights

START_LOG_PRECISION = 4.0
"""Noise of about a seventh of the spread: a search that begins here finds a smooth function first."""

ROUNDINGS = 8.0
"""Share of the trace of tau Phi^T Phi that is added to the prior precision of a last layer, in units of rounding.

Smooth functions without noise have long waves of large amplitude. On a quadratic with 450 values, eigenvalues of this
matrix reached 1e16, and the smallest was wrong by more than the identity that is added. Then there was no Cholesky
factor, and chains stood still. Where eigenvalues are below 1e12, the addition is less than a hundredth.
"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parameters:
    """Hold coordinates of the posterior: for each level the hidden layers, the last layer (or its xi), and log tau."""

    hidden: tuple[Hidden, ...]
    last: tuple[Float[Array, "..."], ...]
    log_precision: Float[Array, " m"]


@runtime_checkable
class Model(Protocol):
    """Describe a density over `Parameters`."""

    @property
    def stack(self) -> Stack:
        """Return the networks."""
        ...

    def start(self, key: PRNGKeyArray, dim: int, num_levels: int) -> Parameters:
        """Return parameters from which a search or a chain may begin."""
        ...

    def log_joint(self, parameters: Parameters, data: Dataset) -> tuple[Float[Array, ""], tuple[Weights, ...]]:
        """Return the log of equation (4), up to a constant, and the networks that belong to the parameters."""
        ...

    def log_joint_estimate(self, key: PRNGKeyArray, parameters: Parameters, data: Dataset) -> Float[Array, ""]:
        """Return an unbiased estimate of the log density from a random part of the data."""
        ...


def log_prior(parameters: Parameters, a0: float, b0: float) -> Float[Array, ""]:
    """Return the log prior: standard Gaussians on all weights, Gamma(a0, b0) on each tau, as a density of log tau."""
    leaves = jax.tree.leaves((parameters.hidden, parameters.last))
    gaussian = -0.5 * sum(jnp.sum(leaf**2) for leaf in leaves)
    log_precision = parameters.log_precision
    return gaussian + jnp.sum(a0 * log_precision - b0 * jnp.exp(log_precision))


def standard_start(key: PRNGKeyArray, stack: Stack, dim: int, num_levels: int, log_precision: float) -> Parameters:
    """Return networks with outputs of order one.

    If the prior does not scale the weights, they are divided by the square root of their fan-in. Learned factors are
    one.
    """
    hidden = tuple(_tame(level) for level in stack.draw(key, dim, num_levels))
    last = tuple(jnp.zeros(stack.num_features(dim, level)) for level in range(num_levels))
    return Parameters(hidden, last, jnp.full(num_levels, log_precision))


def _tame(hidden: Hidden) -> Hidden:
    """Return a draw from the prior, scaled so that a search can begin from it."""
    if hidden.log_scales is None or hidden.log_relevance is None or hidden.log_amplitude is None:
        weights = tuple(weight / np.sqrt(weight.shape[0]).item() for weight in hidden.weights)
        return Hidden(weights, hidden.biases, None, None, None)
    return Hidden(
        hidden.weights,
        hidden.biases,
        jnp.zeros_like(hidden.log_scales),
        jnp.zeros_like(hidden.log_relevance),
        jnp.zeros_like(hidden.log_amplitude),
    )


@dataclass(frozen=True)
class SampledModel:
    """Compute equation (4) as it stands.

    Args:
        stack: the networks.
        a0, b0: shape and rate of the Gamma prior on each noise precision; the paper does not give its values.
        share: share of the data in a stochastic gradient.
    """

    stack: Stack
    a0: float = 1.0
    b0: float = 1.0
    share: float = 0.25

    def start(self, key: PRNGKeyArray, dim: int, num_levels: int) -> Parameters:
        """Return small random weights, and the noise at its prior mean."""
        return standard_start(key, self.stack, dim, num_levels, float(np.log(self.a0 / self.b0)))

    def log_joint(self, parameters: Parameters, data: Dataset) -> tuple[Float[Array, ""], tuple[Weights, ...]]:
        """See `Model`."""
        row_weight = data.mask.astype(data.value.dtype)
        return self._log_joint(parameters, data, row_weight)

    def log_joint_estimate(self, key: PRNGKeyArray, parameters: Parameters, data: Dataset) -> Float[Array, ""]:
        """Return an estimate in which each row counts with probability `share`, and then `1 / share` times."""
        drawn = jax.random.bernoulli(key, self.share, data.mask.shape) & data.mask
        return self._log_joint(parameters, data, drawn.astype(data.value.dtype) / self.share)[0]

    def _log_joint(
        self, parameters: Parameters, data: Dataset, row_weight: Float[Array, " n"]
    ) -> tuple[Float[Array, ""], tuple[Weights, ...]]:
        total = log_prior(parameters, self.a0, self.b0)
        levels = tuple(map(Weights, parameters.hidden, parameters.last))
        inputs, dim = self.stack.first_inputs(data.unit), data.unit.shape[1]
        for level, weights in enumerate(levels):
            inputs = inputs[data.rows_from(level)]
            output = self.stack.network.features(weights.hidden, inputs, dim) @ weights.last
            rows, log_precision = data.rows(level), parameters.log_precision[level]
            square = (data.value[rows] - output[rows]) ** 2
            each = 0.5 * log_precision - 0.5 * jnp.exp(log_precision) * square
            total = total + jnp.sum(row_weight[rows] * each)
            inputs = self.stack.next_inputs(inputs, output, dim)
        return total, levels


@dataclass(frozen=True)
class CollapsedModel:
    """Compute equation (4) with the last layers in the coordinates of their posterior, see the text of the module.

    The linear algebra runs in the default precision. Call it with x64 enabled: if the noise is a hundredth of the
    spread, A_m is too ill-conditioned for single precision. The features are computed in single precision in both
    cases.

    Args:
        stack: the networks.
        a0, b0: shape and rate of the Gamma prior on each noise precision of standardised outputs.
    """

    stack: Stack
    a0: float = 1.0
    b0: float = 1e-4

    def start(self, key: PRNGKeyArray, dim: int, num_levels: int) -> Parameters:
        """Return random hidden layers, last layers at their posterior means, and rather large noise."""
        return standard_start(key, self.stack, dim, num_levels, START_LOG_PRECISION)

    def log_joint(self, parameters: Parameters, data: Dataset) -> tuple[Float[Array, ""], tuple[Weights, ...]]:
        """See `Model`."""
        total = log_prior(parameters, self.a0, self.b0)
        inputs, dim = self.stack.first_inputs(data.unit), data.unit.shape[1]
        levels: list[Weights] = []
        for level, (hidden, xi) in enumerate(zip(parameters.hidden, parameters.last, strict=True)):
            inputs = inputs[data.rows_from(level)]
            rows = data.rows(level)
            features = self.stack.network.features(_single(hidden), inputs, dim)
            evidence, last = collapse(
                features[rows], data.value[rows], data.mask[rows], parameters.log_precision[level], xi
            )
            total = total + evidence
            levels.append(Weights(hidden, last))
            inputs = self.stack.next_inputs(inputs, features @ last.astype(features.dtype), dim)
        return total, tuple(levels)

    def log_joint_estimate(self, key: PRNGKeyArray, parameters: Parameters, data: Dataset) -> Float[Array, ""]:
        """Return the whole log density, because the evidence of a level is not a sum over rows."""
        del key
        return self.log_joint(parameters, data)[0]


def _single(hidden: Hidden) -> Hidden:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), hidden)


def collapse(
    features: Float[Array, "n k"],
    value: Float[Array, " n"],
    mask: Bool[Array, " n"],
    log_precision: Float[Array, ""],
    xi: Float[Array, " k"],
) -> tuple[Float[Array, ""], Float[Array, " k"]]:
    """Return the log evidence of Bayesian linear regression, up to a constant, and the last layer at xi.

    The prior of the weights is N(0, I). Where features are so large that rounding would hide the identity, the prior is
    as much narrower as rounding requires, and the evidence is that of this prior.
    """
    phi = jnp.where(mask[:, None], features, 0.0).astype(xi.dtype)
    target = jnp.where(mask, value, 0.0).astype(xi.dtype)
    precision = jnp.exp(log_precision)
    count = jnp.sum(mask).astype(xi.dtype)
    gram = precision * (phi.T @ phi)
    own = 1.0 + ROUNDINGS * jnp.finfo(xi.dtype).eps * jnp.trace(gram)
    gram = gram + own * jnp.eye(phi.shape[1], dtype=xi.dtype)
    half_log_determinant, explained, last = posterior_weights(gram, precision * (phi.T @ target), xi)
    quadratic = precision * jnp.sum(target**2) - explained
    half_log_prior = 0.5 * phi.shape[1] * jnp.log(own)
    return 0.5 * count * log_precision + half_log_prior - half_log_determinant - 0.5 * quadratic, last
