"""Learn with one Gaussian process over points and levels: the surrogate of MF-MES (Takeno et al. 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.linalg import cho_solve
from threadpoolctl import threadpool_limits

from bmbo.history import Dataset
from bmbo.surrogates.darn_networks import cosine
from bmbo.surrogates.gp.coregional_model import Evidence, Latents, Sizes
from bmbo.surrogates.gp.hyperparameter_draws import Rival, check_num_hyper, search
from bmbo.surrogates.gp.kernels import ROUGHNESS, Floats, Kernel, check_kernels, frequencies
from bmbo.surrogates.gp.level_model import robust_factor
from bmbo.surrogates.gp.pathwise_draws import double, drawn_rows, own_update, shared_update


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CoregionalPosterior:
    """Hold t functions under each of h hyperparameters, as sums over j latent processes.

    Attributes:
        frequency, phase, weights: of the features of the prior; each process has its own, and loadings are included.
        log_length, roughness: of the kernels between points and observations.
        update: weights of the kernels, with the covariance between levels; zeros where padded.
        unit: the observed points of all levels.
        noise_each: variance of an observation, under each of the hyperparameters.
    """

    frequency: Float[Array, "h f d"]
    phase: Float[Array, "h f"]
    weights: Float[Array, "h t m f"]
    log_length: Float[Array, "h j d"]
    roughness: Float[Array, "h j"]
    update: Float[Array, "h j t m n"]
    unit: Float[Array, "n d"]
    noise_each: Float[Array, "h m"]

    @jax.jit
    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        single = unit.astype(jnp.float32)
        num_hyper, num_latent, num_each, num_levels, num_rows = self.update.shape
        phi = cosine(jnp.einsum("qd,hfd->hqf", single, self.frequency) + self.phase[:, None])
        prior = jnp.einsum("hqf,htmf->htqm", phi, self.weights)
        length, roughness = self.log_length.reshape(-1, unit.shape[1]), self.roughness.reshape(-1)
        flat = self.update.reshape(num_hyper * num_latent, num_each * num_levels, num_rows)
        update = shared_update(single, self.unit, length, roughness, flat)
        update = update.reshape(num_hyper, num_latent, num_each, num_levels, -1).sum(axis=1)
        return (prior + jnp.moveaxis(update, 3, 2)).reshape(-1, unit.shape[0], num_levels)

    @jax.jit
    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """See `Posterior`."""
        num_hyper, num_latent, num_each, num_levels, _ = self.update.shape
        single = unit.astype(jnp.float32).reshape(num_hyper, num_each, *unit.shape[1:])
        phi = cosine(jnp.einsum("htqd,hfd->htqf", single, self.frequency) + self.phase[:, None, None])
        outputs = jnp.einsum("htqf,htmf->htqm", phi, self.weights)
        for latent in range(num_latent):
            length, roughness = self.log_length[:, latent], self.roughness[:, latent]
            updates = [
                own_update(single, self.unit, length, roughness, self.update[:, latent, :, level])
                for level in range(num_levels)
            ]
            outputs = outputs + jnp.stack(updates, axis=-1)
        return outputs.reshape(*unit.shape[:2], num_levels)

    @property
    def noise(self) -> Float[Array, " m"]:
        """See `Posterior`."""
        return jnp.mean(self.noise_each, axis=0)


@dataclass(frozen=True)
class LatentDraws:
    """Hold what one set of hyperparameters adds to a posterior, on the host; `update` has no padding."""

    frequency: Floats
    phase: Floats
    weights: Floats
    log_length: Floats
    roughness: Floats
    update: Floats
    noise: Floats


@dataclass(frozen=True)
class CoregionalInfo:
    """Describe what a fit found.

    Attributes:
        rivals: the kernels of the latent processes in each rival model.
        shares: their posterior probabilities.
        log_evidence: log evidence of all values, without the constant of Gaussians.
    """

    rivals: tuple[tuple[Kernel, ...], ...]
    shares: tuple[float, ...]
    log_evidence: float


@dataclass(frozen=True)
class CoregionalGP:
    """Fit a linear model of coregionalisation to all levels at once.

    Args:
        kernels: kernels of the latent processes, in any combination, weighed by evidence.
        num_latent: number of latent processes; None takes one per level.
        num_functions: number of draws in the posterior.
        num_hyper: number of draws of the hyperparameters among them; must divide `num_functions`. With 1, the best
            maximum is used.
        num_features: number of random Fourier features of each latent process.
        num_proposals: number of draws that weigh each combination.
        max_steps: most steps of a search for a maximum.
    """

    kernels: tuple[Kernel, ...] = ("rbf", "matern52")
    num_latent: int | None = None
    num_functions: int = 256
    num_hyper: int = 16
    num_features: int = 256
    num_proposals: int = 64
    max_steps: int = 60

    def __post_init__(self) -> None:
        check_kernels(self.kernels)
        check_num_hyper(self.num_hyper, self.num_functions)

    def fit(
        self, key: PRNGKeyArray, data: Dataset, warm: Floats | None = None
    ) -> tuple[CoregionalPosterior, Floats, CoregionalInfo]:
        """See `Surrogate`; `warm` holds the best hyperparameters under each combination of kernels."""
        rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
        sizes = Sizes(self.num_latent or data.num_levels, data.num_levels, data.unit.shape[1])
        level = np.concatenate([np.full(data.sizes[m], m) for m in reversed(range(data.num_levels))])
        mask, unit, value = np.asarray(data.mask), np.asarray(data.unit, np.float64), np.asarray(data.value, np.float64)
        rivals = tuple(combinations_with_replacement(self.kernels, sizes.num_latent))
        roughness = np.asarray([[ROUGHNESS[kernel] for kernel in rival] for rival in rivals])
        densities = [Evidence(unit[mask], level[mask], value[mask], each, sizes) for each in roughness]
        deviation = sizes.prior()[1]
        models = [
            Rival(density, deviation > 0, sizes.starts() if warm is None else [warm[place]], deviation)
            for place, density in enumerate(densities)
        ]
        with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would only wait for each other
            found = search(rng, models, num=self.num_hyper, num_proposals=self.num_proposals, max_steps=self.max_steps)
            parts = [
                self.condition(rng, densities[owner], Latents.of(flat, sizes))
                for flat, owner in zip(found.flat, found.owner, strict=True)
            ]
        info = CoregionalInfo(rivals, tuple(float(share) for share in found.shares), found.log_evidence)
        return self.posterior(parts, data), found.modes, info

    def condition(self, rng: np.random.Generator, model: Evidence, latents: Latents) -> LatentDraws:
        """Return functions under one set of hyperparameters: prior draws of every process, and the update."""
        num, count = self.num_functions // self.num_hyper, self.num_features
        dim, (num_latent, num_levels) = model.unit.shape[1], latents.loading.shape
        kinds = zip(model.roughness, latents.length, strict=True)
        frequency = np.stack([frequencies(rng, count, dim, float(kind)) / length for kind, length in kinds])
        phase = rng.uniform(0.0, 2.0 * np.pi, (num_latent, count))
        shared, own = (
            rng.standard_normal((num, num_latent, 1, count)),
            rng.standard_normal((num, *latents.kappa.shape, count)),
        )
        weights = latents.loading[..., None] * shared + np.sqrt(latents.kappa)[..., None] * own
        weights = weights * np.sqrt(latents.amplitude / count)[:, None, None]
        # Rounded like the stored draws, so that the update corrects exactly these.
        frequency, phase, weights = (part.astype(np.float32).astype(np.float64) for part in (frequency, phase, weights))
        phi = np.sqrt(2.0) * np.cos(np.einsum("nd,jfd->jnf", model.unit, frequency) + phase[:, None])
        prior = np.zeros((num, len(model.value)))
        for level in range(num_levels):
            rows = model.level == level
            prior[:, rows] = np.tensordot(weights[:, :, level], phi[:, rows], axes=([1, 2], [0, 2]))
        noise = np.sqrt(latents.noise[model.level]) * rng.standard_normal(prior.shape)
        solved = model.value - prior - noise
        if len(model.value):
            solved = cho_solve((robust_factor(model.covariance(latents)), True), solved.T).T
        between = latents.amplitude[:, None, None] * latents.between[:, :, model.level]
        update = between[:, None] * solved[:, None]
        flat = np.swapaxes(weights, 1, 2).reshape(num, num_levels, -1)
        return LatentDraws(
            frequency.reshape(-1, dim),
            phase.reshape(-1),
            flat,
            np.log(latents.length),
            model.roughness,
            update,
            latents.noise,
        )

    def posterior(self, parts: Sequence[LatentDraws], data: Dataset) -> CoregionalPosterior:
        """Return the functions under several hyperparameters together, with room for more observations."""
        known = np.asarray(data.unit, np.float64)[np.asarray(data.mask)]
        missing = drawn_rows(len(known)) - len(known)
        update = np.stack([np.pad(part.update, ((0, 0), (0, 0), (0, 0), (0, missing))) for part in parts])
        return CoregionalPosterior(
            frequency=jnp.asarray(np.stack([part.frequency for part in parts]), jnp.float32),
            phase=jnp.asarray(np.stack([part.phase for part in parts]), jnp.float32),
            weights=jnp.asarray(np.stack([part.weights for part in parts]), jnp.float32),
            log_length=double([part.log_length for part in parts]),
            roughness=double([part.roughness for part in parts]),
            update=double(update),
            unit=double(np.pad(known, ((0, missing), (0, 0)))),
            noise_each=jnp.asarray(np.stack([part.noise for part in parts]), jnp.float32),
        )
