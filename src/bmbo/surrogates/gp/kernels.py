"""Compute stationary correlations over the cube, random features of them, and the prior of their length-scales.

A number distinguishes squared-exponential and Matern-5/2, so that functions of both kinds can be in one array.
"""

from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

Kernel = Literal["rbf", "matern52"]
Floats = NDArray[np.float64]

ROUGHNESS: dict[Kernel, float] = {"rbf": 0.0, "matern52": 1.0}
"""The number that distinguishes the kernels."""


def check_kernels(kernels: tuple[str, ...]) -> None:
    """Raise ValueError for names that are no kernels."""
    unknown = [name for name in kernels if name not in get_args(Kernel)]
    if unknown or not kernels:
        raise ValueError(f"kernels must be some of {', '.join(get_args(Kernel))}; got {kernels!r}")


def correlation(square: Float[Array, "*shape"], roughness: Float[Array, ""]) -> Float[Array, "*shape"]:
    """Return correlations from squared distances in units of the length-scales."""
    # At zero the gradient of a root is infinite, that of the correlation is not. A distance of 1e-10 changes neither
    # value.
    distance = jnp.sqrt(5.0 * square + 1e-20)
    rough = roughness > 0.5
    polynomial = jnp.where(rough, 1.0 + distance + distance**2 / 3.0, 1.0)
    return polynomial * jnp.exp(jnp.where(rough, -distance, -0.5 * square))


def correlation_and_slope(square: Floats, roughness: float) -> tuple[Floats, Floats]:
    """Return the correlation on the host, and minus twice its derivative by the squared distance."""
    if roughness <= 0.5:
        value = np.exp(-0.5 * square)
        return value, value
    distance = np.sqrt(5.0 * square)
    decay = np.exp(-distance)
    return (1.0 + distance + distance**2 / 3.0) * decay, 5.0 / 3.0 * (1.0 + distance) * decay


def square_distance(
    one: Float[Array, "q d"], other: Float[Array, "n d"], log_length: Float[Array, " d"]
) -> Float[Array, "q n"]:
    """Return squared distances in units of the length-scales, from differences.

    The expanded square would cancel and leave only the rounding of the coordinates.
    """
    scale = jnp.exp(-log_length)[None]
    one, other = one * scale, other * scale
    total = jnp.zeros((one.shape[0], other.shape[0]), one.dtype)
    for axis in range(one.shape[1]):  # the whole [q n d] array would take most of the time
        total = total + (one[:, None, axis] - other[None, :, axis]) ** 2
    return total


def frequencies(rng: np.random.Generator, num: int, dim: int, roughness: float) -> Floats:
    """Return draws from the spectrum at unit length-scales: Gaussian, or Student's t with 5 degrees of freedom."""
    normal = rng.standard_normal((num, dim))
    spread = np.sqrt(5.0 / rng.chisquare(5.0, (num, 1)))
    return normal * spread if roughness > 0.5 else normal


def length_prior(dim: int) -> tuple[float, float]:
    """Return the centre and the deviation of the Gaussian prior of log length-scales.

    Hvarfner et al. (2024) give a log-normal density of a length, with mu = sqrt(2) + log(dim) / 2 and sigma = sqrt(3).
    It is largest where the logarithm is mu - sigma^2. The search is over logarithms, where mu itself would be the mode,
    so the Gaussian is centred at mu - sigma^2.
    """
    mu, sigma = float(np.sqrt(2.0) + 0.5 * np.log(dim)), float(np.sqrt(3.0))
    return mu - sigma**2, sigma
