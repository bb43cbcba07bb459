"""Learn with SHTL's surrogate (Perrone et al. 2018): each level is linear in basis functions from one network.

Each level has its own head, with its own weight precision and noise precision. The heads are integrated out. Adam
finds the network and the precisions where the sum of the levels' log evidences is largest. Given the basis, the levels
are independent.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from bmbo.history import Dataset
from bmbo.inference.density_maxima import optimise
from bmbo.inference.inference_interface import Target
from bmbo.surrogates.darn_density import collapse

Floats = NDArray[np.float64]

START_LOG_NOISE = 4.0
"""Log noise precision where a search begins: noise of about a seventh of the spread, so that the first fit is
smooth."""

PRECISION_SPREAD = 4.0
"""Prior deviation of the log precisions from their starts: it keeps a level with few values near its start."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layers:
    """Hold a network of tanh layers; the outputs of the last layer are the basis."""

    weights: tuple[Float[Array, "..."], ...]
    biases: tuple[Float[Array, "..."], ...]

    def features(self, unit: Float[Array, "q d"]) -> Float[Array, "q k"]:
        """Return the basis, followed by a one, at points of the cube."""
        # The points of the cube, centred and scaled like the outputs: mean zero, variance one.
        values = (unit - 0.5) * np.sqrt(12.0).item()
        for weight, bias in zip(self.weights, self.biases, strict=True):
            values = jnp.tanh(values @ weight + bias[None])
        return jnp.concatenate([values, jnp.ones_like(values[:, :1])], axis=1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BasisParameters:
    """Hold what the evidence is maximised over: the network, and the log precisions of each level's head and noise."""

    layers: Layers
    log_weight: Float[Array, " m"]
    log_noise: Float[Array, " m"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SharedBasisPosterior:
    """Hold drawn heads over one basis."""

    layers: Layers
    heads: Float[Array, "s k m"]
    noise_each: Float[Array, " m"]

    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        return jnp.einsum("qk,skm->sqm", self.layers.features(unit.astype(jnp.float32)), self.heads)

    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        flat = self.layers.features(unit.astype(jnp.float32).reshape(-1, unit.shape[-1]))
        return jnp.einsum("sqk,skm->sqm", flat.reshape(*unit.shape[:2], -1), self.heads)

    @property
    def noise(self) -> Float[Array, " m"]:
        """See `Posterior`."""
        return self.noise_each


@dataclass(frozen=True)
class BasisInfo:
    """Describe what a fit found: the log evidence of all levels, priors included, and each level's noise variance."""

    log_evidence: float
    noise: tuple[float, ...]


@dataclass(frozen=True)
class SharedBasis:
    """Regress each level on basis functions that all levels share, by Bayesian linear regression.

    Args:
        widths: widths of the network's layers, the basis last; the values of Perrone et al.
        num_starts: number of networks that are trained; the one with the best evidence is kept.
        num_steps: steps of Adam, for a first fit; the number of epochs of Perrone et al.
        num_steps_warm: steps of Adam from the network of an earlier fit.
        learning_rate: where the cosine decay begins; the largest value of Perrone et al.
        num_functions: number of draws in the posterior.
    """

    widths: tuple[int, ...] = (40, 40, 32)
    num_starts: int = 1
    num_steps: int = 2000
    num_steps_warm: int = 200
    learning_rate: float = 0.01
    num_functions: int = 512

    def fit(
        self, key: PRNGKeyArray, data: Dataset, warm: Float[Array, "c p"] | None = None
    ) -> tuple[SharedBasisPosterior, Float[Array, "c p"], BasisInfo]:
        """See `Surrogate`; `warm` holds the trained networks."""
        key_start, key_heads = jax.random.split(key)
        # The evidence of nearly noise-free values needs double precision.
        with jax.enable_x64(True):
            start = self._starts(key_start, data) if warm is None else warm
            trained, evidence = _train(data, start, jnp.asarray(warm is not None), surrogate=self)
            best = self._unravel(data)(trained[jnp.argmax(evidence)])
            features = np.asarray(best.layers.features(data.unit.astype(trained.dtype)), np.float64)
        rng = np.random.default_rng(np.asarray(jax.random.bits(key_heads, (4,))))
        log_weight, log_noise = np.asarray(best.log_weight), np.asarray(best.log_noise)
        heads: list[Floats] = []
        mask, value = np.asarray(data.mask), np.asarray(data.value, np.float64)
        for level in range(data.num_levels):
            rows = np.zeros_like(mask)
            rows[data.rows(level)] = mask[data.rows(level)]
            precisions = float(np.exp(log_weight[level])), float(np.exp(log_noise[level]))
            mean, factor = head(features[rows], value[rows], *precisions)
            normal = rng.standard_normal((len(mean), self.num_functions))
            heads.append(mean + solve_triangular(factor, normal, lower=True, trans=1).T)
        posterior = SharedBasisPosterior(
            layers=jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32), best.layers),
            heads=jnp.asarray(np.stack(heads, axis=-1), jnp.float32),
            noise_each=jnp.asarray(np.exp(-log_noise), jnp.float32),
        )
        return posterior, trained, BasisInfo(float(np.max(np.asarray(evidence))), tuple(map(float, np.exp(-log_noise))))

    def log_evidence(self, flat: Float[Array, " p"], data: Dataset) -> Float[Array, ""]:
        """Return the log evidence of all levels, plus the log prior.

        The prior of the network's weights, times the square root of their fan-in, is a unit Gaussian.
        """
        parameters = self._unravel(data)(flat)
        layers = parameters.layers
        prior = -0.5 * sum(jnp.sum(weight**2) * weight.shape[0] for weight in layers.weights)
        prior -= 0.5 * sum(jnp.sum(bias**2) for bias in layers.biases)
        offsets = jnp.concatenate([parameters.log_weight, parameters.log_noise - START_LOG_NOISE])
        total = prior - 0.5 * jnp.sum((offsets / PRECISION_SPREAD) ** 2)
        features = layers.features(data.unit.astype(flat.dtype))
        for level in range(data.num_levels):
            rows = data.rows(level)
            # Weights of precision alpha are the same as unit weights on features divided by the square root of alpha.
            scaled = features[rows] * jnp.exp(-0.5 * parameters.log_weight[level])
            xi = jnp.zeros(features.shape[1], flat.dtype)
            evidence, _ = collapse(scaled, data.value[rows], data.mask[rows], parameters.log_noise[level], xi)
            total = total + evidence
        return total

    def start(self, key: PRNGKeyArray, dim: int, num_levels: int) -> BasisParameters:
        """Return weights from their prior, small biases, and unit heads."""
        keys = jax.random.split(key, 2 * len(self.widths))
        shapes = list(pairwise((dim, *self.widths)))
        layers = Layers(
            tuple(jax.random.normal(k, s) / np.sqrt(s[0]).item() for k, s in zip(keys[::2], shapes, strict=True)),
            tuple(0.5 * jax.random.normal(k, s[1:]) for k, s in zip(keys[1::2], shapes, strict=True)),
        )
        return BasisParameters(layers, jnp.zeros(num_levels), jnp.full(num_levels, START_LOG_NOISE))

    def _starts(self, key: PRNGKeyArray, data: Dataset) -> Float[Array, "c p"]:
        keys = jax.random.split(key, self.num_starts)
        return jnp.stack([ravel_pytree(self.start(k, data.unit.shape[1], data.num_levels))[0] for k in keys])

    def _unravel(self, data: Dataset) -> Any:
        return ravel_pytree(self.start(jax.random.key(0), data.unit.shape[1], data.num_levels))[1]


def head(features: Floats, value: Floats, weight: float, noise: float) -> tuple[Floats, Floats]:
    """Return the mean of a Bayesian linear regression's weights, and the Cholesky factor of their precision."""
    with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would only wait for each other
        precision = noise * features.T @ features + weight * np.eye(features.shape[1])
        factor = cholesky(precision, lower=True)
        half = solve_triangular(factor, noise * features.T @ value, lower=True)
        return solve_triangular(factor, half, lower=True, trans=1), factor


@partial(jax.jit, static_argnames=("surrogate",))
def _train(
    data: Dataset, start: Float[Array, "c p"], warm: Bool[Array, ""], *, surrogate: SharedBasis
) -> tuple[Float[Array, "c p"], Float[Array, " c"]]:
    def logdensity(flat: Float[Array, " p"]) -> Float[Array, ""]:
        return surrogate.log_evidence(flat, data)

    def estimate(key: PRNGKeyArray, flat: Float[Array, " p"]) -> Float[Array, ""]:
        del key
        return logdensity(flat)

    target = Target(logdensity, estimate, monitor=lambda flat: flat[:1])
    steps = jnp.where(warm, surrogate.num_steps_warm, surrogate.num_steps)
    trained = optimise(target, start, steps, surrogate.learning_rate)
    return trained, jax.vmap(logdensity)(trained)
