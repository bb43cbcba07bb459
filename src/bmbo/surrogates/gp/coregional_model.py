"""Model all levels at once: each is a linear combination of a few latent Gaussian processes.

    cov(f_m(x), f_m'(x')) = sum_j a_j k_j(x, x') (w_jm w_jm' + kappa_jm [m = m'])

This is the model of Takeno et al. 2020: j counts the latent processes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmbo.surrogates.gp.kernels import Floats, correlation_and_slope, length_prior
from bmbo.surrogates.gp.level_model import (
    JITTER,
    LARGEST_LOG,
    SMALLEST_NOISE,
    log_evidence,
    log_evidence_and_slope,
    log_gaussian,
)


@dataclass(frozen=True)
class Sizes:
    """Hold the numbers of latent processes, levels and coordinates, by which a vector of hyperparameters is split."""

    num_latent: int
    num_levels: int
    dim: int

    @property
    def each(self) -> int:
        """Return how many numbers one latent process has: lengths, amplitude, loadings, log kappas."""
        return self.dim + 1 + 2 * self.num_levels

    def prior(self) -> tuple[Floats, Floats]:
        """Return the mean and the deviation of each number; all are Gaussian."""
        length, spread = length_prior(self.dim)
        zeros, ones = [0.0] * self.num_levels, [1.0] * self.num_levels
        mean = ([length] * self.dim + [0.0] + zeros + [np.log(0.1)] * self.num_levels) * self.num_latent
        deviation = ([spread] * self.dim + [2.5] + ones + [2.0] * self.num_levels) * self.num_latent
        return np.asarray(mean + [np.log(1e-4)] * self.num_levels), np.asarray(deviation + [4.0] * self.num_levels)

    def starts(self) -> list[Floats]:
        """Return two starts, one with little noise and one with much.

        The first process is shared by all levels, and the others tell the levels apart.
        """
        found: list[Floats] = []
        for length, noise in ((0.3, 1e-4), (1.0, 0.1)):
            start, _ = self.prior()
            start[-self.num_levels :] = np.log(noise)
            for latent in range(self.num_latent):
                part = start[latent * self.each : (latent + 1) * self.each]
                part[: self.dim] = np.log(length / (1 + latent)) + 0.5 * np.log(self.dim)
                loadings = np.cos(np.pi * latent * (np.arange(self.num_levels) + 0.5) / self.num_levels)
                part[self.dim + 1 : self.dim + 1 + self.num_levels] = loadings
            found.append(start)
        return found


@dataclass(frozen=True)
class Latents:
    """Hold hyperparameters with names, for j latent processes."""

    length: Floats  # [j d]
    amplitude: Floats  # [j]
    loading: Floats  # [j m]
    kappa: Floats  # [j m]
    noise: Floats  # [m]

    @classmethod
    def of(cls, flat: Floats, sizes: Sizes) -> "Latents":
        """Return the hyperparameters of a vector that is searched."""
        grid = flat[: -sizes.num_levels].reshape(sizes.num_latent, sizes.each)
        logs, dim, num = np.minimum(grid, LARGEST_LOG), sizes.dim, sizes.num_levels
        noise = SMALLEST_NOISE + np.exp(np.minimum(flat[-num:], LARGEST_LOG))
        loading, kappa = grid[:, dim + 1 : dim + 1 + num], np.exp(logs[:, dim + 1 + num :])
        return cls(np.exp(logs[:, :dim]), np.exp(logs[:, dim]), loading, kappa, noise)

    @property
    def between(self) -> Floats:
        """Return the covariance of the levels under each process, without its amplitude: [j m m]."""
        return self.loading[:, :, None] * self.loading[:, None] + np.stack([np.diag(kappa) for kappa in self.kappa])


class Evidence:
    """Compute the log joint density of all levels' values and the hyperparameters, and its gradient."""

    def __init__(self, unit: Floats, level: NDArray[np.int64], value: Floats, roughness: Floats, sizes: Sizes) -> None:
        """Take points [n d], their levels [n] and values [n], and the kernel of each process [j]."""
        self.unit, self.level, self.value, self.roughness, self._sizes = unit, level, value, roughness, sizes
        self._squares = [np.subtract.outer(column, column) ** 2 for column in unit.T]
        self._of_level = np.eye(sizes.num_levels)[level]

    def __call__(self, flat: Floats) -> float:
        """Return the log density; minus infinity if the covariance cannot be factorised."""
        solved = log_evidence(self.covariance(Latents.of(flat, self._sizes)), self.value)
        return -np.inf if solved is None else self._log_prior(flat)[0] + solved[0]

    def with_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """Return the log density and its gradient."""
        latents, sizes = Latents.of(flat, self._sizes), self._sizes
        solved = log_evidence_and_slope(self.covariance(latents), self.value)
        if solved is None:
            return -np.inf, np.zeros_like(flat)
        evidence, pull = solved
        log_prior, gradient = self._log_prior(flat)
        diagonal = np.diag(pull)
        parts = [self._latent_gradient(latents, place, pull) for place in range(sizes.num_latent)]
        gradient[: -sizes.num_levels] += np.concatenate(parts)
        gradient[-sizes.num_levels :] += (latents.noise - SMALLEST_NOISE) * (diagonal @ self._of_level)
        return evidence + log_prior, gradient

    def covariance(self, latents: Latents) -> Floats:
        """Return the covariance of the values."""
        covariance = np.diag(latents.noise[self.level] + JITTER * np.sum(latents.amplitude))
        for place, between in enumerate(latents.between):
            process, _ = self._process(latents, place)
            covariance += latents.amplitude[place] * process * between[np.ix_(self.level, self.level)]
        return covariance

    def _process(self, latents: Latents, place: int) -> tuple[Floats, Floats]:
        scaled = [square / length**2 for square, length in zip(self._squares, latents.length[place], strict=True)]
        return correlation_and_slope(np.sum(scaled, axis=0), float(self.roughness[place]))

    def _latent_gradient(self, latents: Latents, place: int, pull: Floats) -> Floats:
        """Return the gradient by the numbers of one process, in their order."""
        process, slope = self._process(latents, place)
        amplitude, between = latents.amplitude[place], latents.between[place]
        spread = between[np.ix_(self.level, self.level)]
        by_length = [
            amplitude * np.sum(pull * slope * spread * square) / length**2
            for square, length in zip(self._squares, latents.length[place], strict=True)
        ]
        pulled = amplitude * pull * process
        by_between = self._of_level.T @ pulled @ self._of_level
        by_amplitude = np.sum(by_between * between) + JITTER * amplitude * np.trace(pull)
        by_kappa = latents.kappa[place] * np.diag(by_between)
        return np.concatenate([by_length, [by_amplitude], 2.0 * by_between @ latents.loading[place], by_kappa])

    def _log_prior(self, flat: Floats) -> tuple[float, Floats]:
        return log_gaussian(flat, *self._sizes.prior(), np.ones(len(flat), bool))
