"""The model of all levels at once: linear in a few latent Gaussian processes.

cov(f_m(x), f_m'(x')) = sum_j a_j k_j(x, x') (w_jm w_jm' + kappa_jm [m = m'])    (Takeno et al. 2020)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky

from bmbo.surrogates.gp.kernels import Floats, correlation_and_slope, length_prior
from bmbo.surrogates.gp.level_model import JITTER, LARGEST_LOG, SMALLEST_NOISE


@dataclass(frozen=True)
class Sizes:
    """Latent processes, levels and coordinates: how a vector of hyperparameters is cut."""

    num_latent: int
    num_levels: int
    dim: int

    @property
    def each(self) -> int:
        """Numbers of one latent process: lengths, amplitude, loadings, log kappas."""
        return self.dim + 1 + 2 * self.num_levels

    def prior(self) -> tuple[Floats, Floats]:
        """Mean and deviation of each number, all Gaussian."""
        length, spread = length_prior(self.dim)
        zeros, ones = [0.0] * self.num_levels, [1.0] * self.num_levels
        mean = ([length] * self.dim + [0.0] + zeros + [np.log(0.1)] * self.num_levels) * self.num_latent
        deviation = ([spread] * self.dim + [2.5] + ones + [2.0] * self.num_levels) * self.num_latent
        return np.asarray(mean + [np.log(1e-4)] * self.num_levels), np.asarray(deviation + [4.0] * self.num_levels)

    def starts(self) -> list[Floats]:
        """A first process that all levels share and others that tell them apart; with little noise, and with much."""
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
    """Hyperparameters with names; j latent processes."""

    length: Floats  # [j d]
    amplitude: Floats  # [j]
    loading: Floats  # [j m]
    kappa: Floats  # [j m]
    noise: Floats  # [m]

    @classmethod
    def of(cls, flat: Floats, sizes: Sizes) -> "Latents":
        """From the vector that is searched."""
        grid = flat[: -sizes.num_levels].reshape(sizes.num_latent, sizes.each)
        logs, dim, num = np.minimum(grid, LARGEST_LOG), sizes.dim, sizes.num_levels
        noise = SMALLEST_NOISE + np.exp(np.minimum(flat[-num:], LARGEST_LOG))
        loading, kappa = grid[:, dim + 1 : dim + 1 + num], np.exp(logs[:, dim + 1 + num :])
        return cls(np.exp(logs[:, :dim]), np.exp(logs[:, dim]), loading, kappa, noise)

    @property
    def between(self) -> Floats:
        """Covariance of the levels under each process, its amplitude aside: [j m m]."""
        return self.loading[:, :, None] * self.loading[:, None] + np.stack([np.diag(kappa) for kappa in self.kappa])


class Evidence:
    """Log joint density of all levels' values and the hyperparameters, and its gradient."""

    def __init__(self, unit: Floats, level: NDArray[np.int64], value: Floats, roughness: Floats, sizes: Sizes) -> None:
        """Points [n d], their levels [n] and values [n], and the kernel of each process [j]."""
        self.unit, self.level, self.value, self.roughness, self._sizes = unit, level, value, roughness, sizes
        self._squares = [np.subtract.outer(column, column) ** 2 for column in unit.T]
        self._of_level = np.eye(sizes.num_levels)[level]

    def __call__(self, flat: Floats) -> float:
        """The log density; minus infinity where the covariance cannot be factorised."""
        factor = self._factor(Latents.of(flat, self._sizes))
        return -np.inf if factor is None else self._log_prior(flat)[0] + self._evidence(factor)[0]

    def with_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """The log density and its gradient."""
        latents, sizes = Latents.of(flat, self._sizes), self._sizes
        factor = self._factor(latents)
        if factor is None:
            return -np.inf, np.zeros_like(flat)
        evidence, weights = self._evidence(factor)
        if len(weights) == 0:
            return self._log_prior(flat)
        pull = 0.5 * (np.outer(weights, weights) - cho_solve((factor, True), np.eye(len(weights))))
        log_prior, gradient = self._log_prior(flat)
        diagonal = np.diag(pull)
        parts = [self._latent_gradient(latents, place, pull) for place in range(sizes.num_latent)]
        gradient[: -sizes.num_levels] += np.concatenate(parts)
        gradient[-sizes.num_levels :] += (latents.noise - SMALLEST_NOISE) * (diagonal @ self._of_level)
        return evidence + log_prior, gradient

    def covariance(self, latents: Latents) -> Floats:
        """Of the values."""
        covariance = np.diag(latents.noise[self.level] + JITTER * np.sum(latents.amplitude))
        for place, between in enumerate(latents.between):
            process, _ = self._process(latents, place)
            covariance += latents.amplitude[place] * process * between[np.ix_(self.level, self.level)]
        return covariance

    def _factor(self, latents: Latents) -> Floats | None:
        covariance = self.covariance(latents)
        if len(covariance) == 0:
            return covariance
        if not np.all(np.isfinite(covariance)):
            return None
        try:
            return cholesky(covariance, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None

    def _evidence(self, factor: Floats) -> tuple[float, Floats]:
        if len(self.value) == 0:
            return 0.0, self.value
        weights = cho_solve((factor, True), self.value, check_finite=False)
        return -0.5 * float(self.value @ weights) - float(np.sum(np.log(np.diag(factor)))), weights

    def _process(self, latents: Latents, place: int) -> tuple[Floats, Floats]:
        scaled = [square / length**2 for square, length in zip(self._squares, latents.length[place], strict=True)]
        return correlation_and_slope(np.sum(scaled, axis=0), float(self.roughness[place]))

    def _latent_gradient(self, latents: Latents, place: int, pull: Floats) -> Floats:
        """By the numbers of one process, in their order."""
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
        mean, deviation = self._sizes.prior()
        white = (flat - mean) / deviation
        constant = np.sum(np.log(deviation)) + 0.5 * len(flat) * np.log(2.0 * np.pi)
        return -0.5 * float(white @ white) - float(constant), -white / deviation
