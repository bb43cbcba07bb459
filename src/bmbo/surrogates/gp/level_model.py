"""Model one level: a Gaussian process over the cube plus a regression on the outputs of lower levels.

    y = delta(x) + w_0 + sum_j w_j f_j(x) + sum_b u_b cos(omega_b . [x, f(x)] + phase_b) + noise

The process delta has an ARD kernel. The weights w are standard Gaussian, because outputs have unit variance. The
cosines are a fixed small set of random features with learned length-scales. They describe what is not linear in the
lower outputs or changes over the cube. All weights are integrated out. Without lower levels, or with both kinds of
links off, the model is a plain Gaussian process.

A search for hyperparameters needs a few hundred evaluations on matrices of a few hundred rows. They run on the host, in
double precision, without compilation or padding. A batch of factorisations on a CPU would not be safe either, see
`surrogates.bayesian_regression`.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky

from bmbo.surrogates.gp.kernels import Floats, correlation_and_slope, length_prior

NUM_BENDS = 32
"""Random features of the lower outputs: enough for a smooth function of two or three standardised numbers."""

SMALLEST_NOISE = 1e-8
"""Smallest noise variance of a standardised output. Simulators have no noise, but double precision needs some."""

JITTER = 1e-11
"""Share of the process's variance that is added to the diagonal: a few thousand roundings of double precision."""


LARGEST_LOG = 50.0
"""Largest logarithm that a search can reach: larger numbers are useless, and the square of this one is still finite."""


@dataclass(frozen=True)
class Structure:
    """Describe the kernel, and whether lower outputs enter linearly and through the cosines."""

    roughness: float = 0.0
    linked: bool = False
    bent: bool = False


@dataclass(frozen=True)
class Hyper:
    """Hold the hyperparameters of a level: a vector with names.

    Attributes:
        length, amplitude: of delta; the amplitude is a variance.
        noise: variance of an observation.
        bend, bend_length: of the cosines: their variance; their length along the cube, then along each lower output.
    """

    length: Floats
    amplitude: float
    noise: float
    bend: float
    bend_length: Floats
    structure: Structure

    @classmethod
    def of(cls, flat: Floats, dim: int, structure: Structure) -> "Hyper":
        """Return the hyperparameters of a vector of logarithms; the noise comes on top of the smallest noise."""
        numbers = np.exp(np.minimum(flat, LARGEST_LOG))
        amplitude, noise, bend = (float(number) for number in numbers[dim : dim + 3])
        return cls(numbers[:dim], amplitude, SMALLEST_NOISE + noise, bend, numbers[dim + 3 :], structure)


def prior(dim: int, num_lower: int) -> tuple[Floats, Floats]:
    """Return the mean and the deviation of each searched number; all are Gaussian."""
    length, spread = length_prior(dim)
    # What bends a link changes slowly along the cube. So its length is expected where the others have their mean.
    mean = [length] * dim + [0.0, np.log(1e-4), np.log(0.1), length + spread**2] + [np.log(2.0)] * num_lower
    # Noise from 1e-8 to 1 lies within two and a half deviations. A smooth function with a short length-scale has an
    # amplitude of a thousand.
    deviation = [spread] * dim + [2.5, 4.0, 2.0, 1.0] + [1.0] * num_lower
    return np.asarray(mean), np.asarray(deviation)


def starts(dim: int, num_lower: int) -> list[Floats]:
    """Return where a search begins: wavy with little noise, and smooth with much."""
    mean, _ = prior(dim, num_lower)
    found: list[Floats] = []
    for length, noise in ((0.3, 1e-4), (1.0, 0.1)):
        start = mean.copy()
        start[:dim], start[dim + 1] = np.log(length) + 0.5 * np.log(dim), np.log(noise)
        found.append(start)
    return found


def free(structure: Structure, dim: int, num_lower: int) -> NDArray[np.bool_]:
    """Return which of the searched numbers a structure has."""
    return np.asarray([True] * (dim + 2) + [structure.bent] * (2 + num_lower))


@cache
def bend_basis(dim: int, num_lower: int) -> tuple[Floats, Floats]:
    """Return frequencies, at unit length-scales, and phases of the cosines; they are the same in every fit."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(NUM_BENDS, dim + num_lower)), rng.uniform(0.0, 2.0 * np.pi, NUM_BENDS)


def link_features(lower: Floats, hyper: Hyper) -> Floats:
    """Return a one, and the lower outputs if they are linked."""
    return np.concatenate([np.ones((*lower.shape[:-1], 1)), lower * hyper.structure.linked], axis=-1)


def bend_angles(unit: Floats, lower: Floats, hyper: Hyper) -> tuple[Floats, Floats]:
    """Return the angles of the cosines, and their parts along the cube and along each lower output in the last axis."""
    dim = unit.shape[-1]
    basis, phase = bend_basis(dim, lower.shape[-1])
    along = np.broadcast_to(unit @ (basis[:, :dim].T / hyper.bend_length[0]), (*lower.shape[:-1], NUM_BENDS))
    across = (lower / hyper.bend_length[1:])[..., None, :] * basis[:, dim:]
    parts = np.concatenate([along[..., None], across], axis=-1)
    return np.sum(parts, axis=-1) + phase, parts


def bend_features(unit: Floats, lower: Floats, hyper: Hyper) -> Floats:
    """Return the cosines times the deviations of their weights."""
    return np.sqrt(2.0 * hyper.bend / NUM_BENDS) * np.cos(bend_angles(unit, lower, hyper)[0])


def robust_factor(covariance: Floats) -> Floats:
    """Return the lower Cholesky factor, with a larger diagonal where rounding makes it necessary."""
    extra = 0.0
    while True:
        try:
            return cholesky(covariance + extra * np.eye(len(covariance)), lower=True)
        except np.linalg.LinAlgError:
            extra = max(10.0 * extra, 1e-10 * float(np.max(np.diag(covariance))))


def log_evidence(covariance: Floats, value: Floats) -> tuple[float, Floats, Floats] | None:
    """Return the log density of Gaussian values, the factor of their covariance, and its inverse times the values.

    The density is without the constant of Gaussians. The result is None if the covariance cannot be factorised.
    """
    if len(covariance) == 0:
        return 0.0, covariance, value
    if not np.all(np.isfinite(covariance)):
        return None
    try:
        factor = cholesky(covariance, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    weights = cho_solve((factor, True), value, check_finite=False)
    return -0.5 * float(value @ weights) - float(np.sum(np.log(np.diag(factor)))), factor, weights


def log_evidence_and_slope(covariance: Floats, value: Floats) -> tuple[float, Floats] | None:
    """Return the log density of Gaussian values and its derivative by their covariance K: half of (a a^T - K^-1).

    Here a is K^-1 times the values. The result is None if the covariance cannot be factorised.
    """
    solved = log_evidence(covariance, value)
    if solved is None or len(value) == 0:
        return None if solved is None else (0.0, covariance)
    evidence, factor, weights = solved
    return evidence, 0.5 * (np.outer(weights, weights) - cho_solve((factor, True), np.eye(len(weights))))


def log_gaussian(flat: Floats, mean: Floats, deviation: Floats, free: NDArray[np.bool_]) -> tuple[float, Floats]:
    """Return the log density of independent Gaussian numbers, of which only the free ones count, and its gradient."""
    white = np.where(free, (flat - mean) / deviation, 0.0)
    constant = np.sum(np.log(deviation[free])) + 0.5 * np.sum(free) * np.log(2.0 * np.pi)
    return -0.5 * float(white @ white) - float(constant), -white / deviation


class Evidence:
    """Compute the log joint density of values and hyperparameters under one structure, and its gradient.

    The lower outputs are uncertain. So their part of the covariance is the mean over some draws of them: a link counts
    as no more certain than its lower level.
    """

    def __init__(self, unit: Floats, lower: Floats, value: Floats, structure: Structure) -> None:
        """Take observed points [n d], draws of the lower outputs there [g n k], and values [n]."""
        self._unit, self._lower, self._value, self._structure = unit, lower, value, structure
        self._dim = unit.shape[1]
        self._squares = [np.subtract.outer(column, column) ** 2 for column in unit.T]
        self._prior = prior(self._dim, lower.shape[-1])
        self._free = free(structure, self._dim, lower.shape[-1])

    def __call__(self, flat: Floats) -> float:
        """Return the log density; minus infinity if the covariance cannot be factorised."""
        hyper = Hyper.of(flat, self._dim, self._structure)
        solved = log_evidence(self._covariance(hyper)[0], self._value)
        return -np.inf if solved is None else self._log_prior(flat)[0] + solved[0]

    def with_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """Return the log density and its gradient, which is zero for numbers that the structure does not have."""
        hyper = Hyper.of(flat, self._dim, self._structure)
        covariance, correlation, slope, phi = self._covariance(hyper)
        solved = log_evidence_and_slope(covariance, self._value)
        if solved is None:
            return -np.inf, np.zeros_like(flat)
        evidence, pull = solved
        log_prior, gradient = self._log_prior(flat)
        pulled = hyper.amplitude * slope * pull
        for axis, square in enumerate(self._squares):
            gradient[axis] += np.sum(pulled * square) / hyper.length[axis] ** 2
        trace = np.trace(pull)
        gradient[self._dim] += hyper.amplitude * (np.sum(pull * correlation) + JITTER * trace)
        gradient[self._dim + 1] += (hyper.noise - SMALLEST_NOISE) * trace
        if self._structure.bent:
            gradient[self._dim + 2 :] += self._bend_gradient(hyper, np.einsum("ij,gjb->gib", pull, phi))
        return evidence + log_prior, np.where(self._free, gradient, 0.0)

    def _covariance(self, hyper: Hyper) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the covariance of the values, the correlation of the process, its slope, and the cosines."""
        square = sum(square / length**2 for square, length in zip(self._squares, hyper.length, strict=True))
        correlation, slope = correlation_and_slope(np.asarray(square), self._structure.roughness)
        covariance = hyper.amplitude * correlation
        covariance[np.diag_indices_from(covariance)] += hyper.noise + JITTER * hyper.amplitude
        phi = np.zeros((len(self._lower), len(self._unit), 0))
        if self._structure.bent:
            phi = bend_features(self._unit, self._lower, hyper)
        for features in (link_features(self._lower, hyper), phi):
            covariance += np.tensordot(features, features, axes=([0, 2], [0, 2])) / len(self._lower)
        return covariance, correlation, slope, phi

    def _log_prior(self, flat: Floats) -> tuple[float, Floats]:
        return log_gaussian(flat, *self._prior, self._free)

    def _bend_gradient(self, hyper: Hyper, pulled: Floats) -> Floats:
        """Return the gradient by the logarithms of the cosines' variance and lengths."""
        angles, parts = bend_angles(self._unit, self._lower, hyper)
        size = np.sqrt(2.0 * hyper.bend / NUM_BENDS)
        by_variance = 0.5 * size * np.sum(pulled * np.cos(angles))
        by_length = size * np.einsum("gib,gibk->k", pulled * np.sin(angles), parts)
        return 2.0 * np.concatenate([[by_variance], by_length]) / len(self._lower)
