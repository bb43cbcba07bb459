"""The model of one level: a Gaussian process over the cube plus a regression on the outputs of lower levels.

    y = delta(x) + w_0 + sum_j w_j f_j(x) + sum_b u_b cos(omega_b . [x, f(x)] + phase_b) + noise

The process delta has an ARD kernel. The weights w are standard Gaussian: outputs have unit variance. The cosines are a
fixed handful of random features with learned length-scales: what is not linear in the lower outputs, or changes over
the cube. All weights are integrated out. Without lower levels, or with both links off, it is a plain Gaussian process.

A search for hyperparameters is a few hundred evaluations on matrices of a few hundred rows. They run on the host, in
double precision: nothing to compile, no padding, and no batch of factorisations (see `surrogates.linear`).
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
"""Least noise variance of a standardised output: simulators have none, and double precision cannot do without."""

JITTER = 1e-11
"""Share of the process's variance that is added to the diagonal: a few thousand roundings of double precision."""


LARGEST_LOG = 50.0
"""A search may try anything: beyond this no number is of use, and squares of it stay finite."""


@dataclass(frozen=True)
class Structure:
    """Which kernel, and whether lower outputs enter linearly and through the cosines."""

    roughness: float = 0.0
    linked: bool = False
    bent: bool = False


@dataclass(frozen=True)
class Hyper:
    """Hyperparameters of a level: a vector with names.

    Attributes:
        length, amplitude: of delta, the amplitude as a variance.
        noise: variance of an observation.
        bend, bend_length: of the cosines: variance; length along the cube, then along each lower output.
    """

    length: Floats
    amplitude: float
    noise: float
    bend: float
    bend_length: Floats
    structure: Structure

    @classmethod
    def of(cls, flat: Floats, dim: int, structure: Structure) -> "Hyper":
        """From the vector that is searched: logarithms, the noise's of what is above the smallest."""
        numbers = np.exp(np.minimum(flat, LARGEST_LOG))
        amplitude, noise, bend = (float(number) for number in numbers[dim : dim + 3])
        return cls(numbers[:dim], amplitude, SMALLEST_NOISE + noise, bend, numbers[dim + 3 :], structure)


def prior(dim: int, num_lower: int) -> tuple[Floats, Floats]:
    """Mean and deviation of each searched number, all Gaussian."""
    length, spread = length_prior(dim)
    mean = [length] * dim + [0.0, np.log(1e-4), np.log(0.1), length] + [np.log(2.0)] * num_lower
    # Noise from 1e-8 to 1 lies within two and a half deviations; a smooth function over a short length-scale has an
    # amplitude of a thousand.
    deviation = [spread] * dim + [2.5, 4.0, 2.0, 1.0] + [1.0] * num_lower
    return np.asarray(mean), np.asarray(deviation)


def starts(dim: int, num_lower: int) -> list[Floats]:
    """Where a search begins: wavy with little noise, and smooth with much."""
    mean, _ = prior(dim, num_lower)
    found: list[Floats] = []
    for length, noise in ((0.3, 1e-4), (1.0, 0.1)):
        start = mean.copy()
        start[:dim], start[dim + 1] = np.log(length) + 0.5 * np.log(dim), np.log(noise)
        found.append(start)
    return found


def free(structure: Structure, dim: int, num_lower: int) -> NDArray[np.bool_]:
    """Which of the searched numbers a structure has."""
    return np.asarray([True] * (dim + 2) + [structure.bent] * (2 + num_lower))


@cache
def bend_basis(dim: int, num_lower: int) -> tuple[Floats, Floats]:
    """Frequencies at unit length-scales and phases of the cosines: a part of the model, the same in every fit."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(NUM_BENDS, dim + num_lower)), rng.uniform(0.0, 2.0 * np.pi, NUM_BENDS)


def link_features(lower: Floats, hyper: Hyper) -> Floats:
    """One, and the lower outputs if linked."""
    return np.concatenate([np.ones((*lower.shape[:-1], 1)), lower * hyper.structure.linked], axis=-1)


def bend_angles(unit: Floats, lower: Floats, hyper: Hyper) -> tuple[Floats, Floats]:
    """What the cosines are taken of, and its parts along the cube and along each lower output, last axis."""
    dim = unit.shape[-1]
    basis, phase = bend_basis(dim, lower.shape[-1])
    along = np.broadcast_to(unit @ (basis[:, :dim].T / hyper.bend_length[0]), (*lower.shape[:-1], NUM_BENDS))
    across = (lower / hyper.bend_length[1:])[..., None, :] * basis[:, dim:]
    parts = np.concatenate([along[..., None], across], axis=-1)
    return np.sum(parts, axis=-1) + phase, parts


def bend_features(unit: Floats, lower: Floats, hyper: Hyper) -> Floats:
    """The cosines, times the deviations of their weights."""
    return np.sqrt(2.0 * hyper.bend / NUM_BENDS) * np.cos(bend_angles(unit, lower, hyper)[0])


def robust_factor(covariance: Floats) -> Floats:
    """Lower Cholesky factor; where rounding spoils it, of the same with a little more on the diagonal."""
    extra = 0.0
    while True:
        try:
            return cholesky(covariance + extra * np.eye(len(covariance)), lower=True)
        except np.linalg.LinAlgError:
            extra = max(10.0 * extra, 1e-10 * float(np.max(np.diag(covariance))))


class Evidence:
    """Log joint density of values and hyperparameters under one structure, and its gradient.

    The lower outputs are uncertain: what they explain is the covariance of the features over some draws of them, which
    takes a link for no surer than its lower level is.
    """

    def __init__(self, unit: Floats, lower: Floats, value: Floats, structure: Structure) -> None:
        """Observed points [n d], draws of the lower outputs there [g n k], and values [n]."""
        self._unit, self._lower, self._value, self._structure = unit, lower, value, structure
        self._dim = unit.shape[1]
        self._squares = [np.subtract.outer(column, column) ** 2 for column in unit.T]
        self._prior = prior(self._dim, lower.shape[-1])
        self._free = free(structure, self._dim, lower.shape[-1])

    def __call__(self, flat: Floats) -> float:
        """The log density; minus infinity where the covariance cannot be factorised."""
        hyper = Hyper.of(flat, self._dim, self._structure)
        solved = self._solved(self._covariance(hyper)[0])
        return -np.inf if solved is None else self._log_prior(flat)[0] + solved[0]

    def with_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """The log density and its gradient, zero for what the structure has not."""
        hyper = Hyper.of(flat, self._dim, self._structure)
        covariance, correlation, slope, phi = self._covariance(hyper)
        solved = self._solved(covariance)
        if solved is None:
            return -np.inf, np.zeros_like(flat)
        evidence, factor, weights = solved
        if len(weights) == 0:
            return self._log_prior(flat)
        # Half of (a a^T - K^-1): the derivative of the evidence by the covariance.
        pull = 0.5 * (np.outer(weights, weights) - cho_solve((factor, True), np.eye(len(weights))))
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
        """Of the values; with the process's correlation, its slope, and the cosines."""
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

    def _solved(self, covariance: Floats) -> tuple[float, Floats, Floats] | None:
        """The evidence, the covariance's factor, and its inverse times the values."""
        if len(covariance) == 0:
            return 0.0, covariance, self._value
        if not np.all(np.isfinite(covariance)):
            return None
        try:
            factor = cholesky(covariance, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        weights = cho_solve((factor, True), self._value, check_finite=False)
        return -0.5 * float(self._value @ weights) - float(np.sum(np.log(np.diag(factor)))), factor, weights

    def _log_prior(self, flat: Floats) -> tuple[float, Floats]:
        mean, deviation = self._prior
        white = np.where(self._free, (flat - mean) / deviation, 0.0)
        constant = np.sum(np.log(deviation[self._free])) + 0.5 * np.sum(self._free) * np.log(2.0 * np.pi)
        return -0.5 * float(white @ white) - float(constant), -white / deviation

    def _bend_gradient(self, hyper: Hyper, pulled: Floats) -> Floats:
        """By the logarithms of the cosines' variance and lengths."""
        angles, parts = bend_angles(self._unit, self._lower, hyper)
        size = np.sqrt(2.0 * hyper.bend / NUM_BENDS)
        by_variance = 0.5 * size * np.sum(pulled * np.cos(angles))
        by_length = size * np.einsum("gib,gibk->k", pulled * np.sin(angles), parts)
        return 2.0 * np.concatenate([[by_variance], by_length]) / len(self._lower)
