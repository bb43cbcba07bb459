"""Run mean-field variational inference: independent Gaussians, nearest to the posterior in reverse KL divergence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.inference.adaptive_chains import where
from bmbo.inference.inference_interface import Info, Result, Target, as_start


class _Gaussian(NamedTuple):
    mean: Float[Array, " p"]
    log_scale: Float[Array, " p"]

    def at(self, noise: Float[Array, " p"]) -> Float[Array, " p"]:
        """Return the draw that belongs to a standard normal draw."""
        return self.mean + jnp.exp(self.log_scale) * noise


def _ascent(
    gaussian: _Gaussian, noise: Float[Array, "t p"], gradient: Callable[[Float[Array, "t p"]], Float[Array, "t p"]]
) -> _Gaussian:
    """Return the direction in which the evidence bound rises, by the path of the draws alone (Roeder et al. 2017).

    The other part of the gradient has mean zero. Without it, the noise vanishes where the Gaussian is the posterior.
    """
    # At a draw, the gradient of -log q is its noise divided by the scale.
    slope = gradient(jax.vmap(gaussian.at)(noise)) + noise * jnp.exp(-gaussian.log_scale)[None]
    return _Gaussian(jnp.mean(slope, axis=0), jnp.mean(slope * noise, axis=0) * jnp.exp(gaussian.log_scale))


@dataclass(frozen=True)
class MeanField:
    """Fit one Gaussian per start, each independently, and draw equally often from all of them.

    Args:
        num_chains: number of Gaussians.
        num_steps: steps of Adam, for a first fit.
        num_steps_warm: steps of Adam from the means of an earlier fit.
        num_draws_per_chain: draws from each Gaussian.
        num_samples: draws from which one gradient of the bound is estimated.
        learning_rate: where the cosine decay begins; it ends at zero, which averages the noise of the gradient.
        initial_scale: first standard deviation; it is small because the mean is found sooner with less noise.
    """

    num_chains: int = 4
    num_steps: int = 5000
    num_steps_warm: int = 1000
    num_draws_per_chain: int = 50
    num_samples: int = 4
    learning_rate: float = 0.01
    initial_scale: float = 0.05

    def run(self, key: PRNGKeyArray, target: Target, start: Float[Array, "c p"], warm: Bool[Array, ""]) -> Result:
        """Return draws; a step whose gradient is not finite is left out."""
        num_steps = jnp.where(warm, self.num_steps_warm, self.num_steps)

        gradient = jax.vmap(jax.grad(target.logdensity))
        adam: Any = optax.scale_by_adam()  # its types are those of trees

        def fit(key: PRNGKeyArray, mean: Float[Array, " p"]) -> tuple[Float[Array, " p"], Float[Array, "t p"]]:
            key_fit, key_draws = jax.random.split(key)

            def step(index: Int[Array, ""], old: tuple[_Gaussian, Any]) -> tuple[_Gaussian, Any]:
                gaussian, moments = old
                key_step = jax.random.fold_in(key_fit, index)
                noise = jax.random.normal(key_step, (self.num_samples, *mean.shape), mean.dtype)
                updates, moments = adam.update(_ascent(gaussian, noise, gradient), moments)
                rate = self.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * index / num_steps))
                rate = rate.astype(mean.dtype)
                new = _Gaussian(gaussian.mean + rate * updates.mean, gaussian.log_scale + rate * updates.log_scale)
                finite = jnp.all(jnp.isfinite(new.mean)) & jnp.all(jnp.isfinite(new.log_scale))
                return where(finite, (new, moments), old)

            begin = _Gaussian(mean, jnp.full_like(mean, jnp.log(self.initial_scale)))
            gaussian, _ = jax.lax.fori_loop(0, num_steps, step, (begin, adam.init(begin)))
            noise = jax.random.normal(key_draws, (self.num_draws_per_chain, *mean.shape), mean.dtype)
            return gaussian.mean, jax.vmap(gaussian.at)(noise)

        means, draws = jax.vmap(fit)(jax.random.split(key, self.num_chains), as_start(start))
        return Result(draws.reshape(-1, draws.shape[-1]), means, Info.unknown(self.num_chains))
