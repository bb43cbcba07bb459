"""Check what every surrogate must do."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bmbo.history import Dataset
from bmbo.protocols import Posterior, Surrogate
from bmbo.testing.require import require

CLOSE = 1e-3
"""Largest difference between two ways to one standardised value: float32 through a few hundred products."""


def check_surrogate(surrogate: Surrogate, data: Dataset) -> None:
    """Raise AssertionError unless a surrogate fits data and draws functions as bmbo expects.

    The surrogate is fitted twice with one key and once from its own warm start.

    Example:
        >>> check_surrogate(MySurrogate(), Dataset.of(history))
    """
    require(isinstance(surrogate, Surrogate), f"{surrogate!r} has no `fit`")
    key = jax.random.key(0)
    posterior, warm, _ = surrogate.fit(key, data)
    _check_posterior(posterior, data, "a first fit")
    unit = _points(data)
    again, _, _ = surrogate.fit(key, data)
    require(
        bool(jnp.array_equal(posterior.draw(unit), again.draw(unit))),
        "two fits with one key to the same data differ: a fit must be a function of its arguments",
    )
    resumed, _, _ = surrogate.fit(jax.random.key(1), data, warm)
    _check_posterior(resumed, data, "a fit from a warm start")


def _check_posterior(posterior: Posterior, data: Dataset, where: str) -> None:
    require(isinstance(posterior, Posterior), f"{where}: {type(posterior)} is no Posterior: see bmbo.protocols")
    unit = _points(data)
    drawn = posterior.draw(unit)
    num_points, num_levels = unit.shape[0], data.num_levels
    require(
        drawn.ndim == 3 and drawn.shape[1:] == (num_points, num_levels),
        f"{where}: draw gave the shape {drawn.shape}, not (draws, {num_points} points, {num_levels} levels)",
    )
    require(bool(jnp.all(jnp.isfinite(drawn))), f"{where}: a drawn function is not finite")
    _check_noise(posterior.noise, num_levels, where)
    each = posterior.draw_each(jnp.broadcast_to(unit[None], (drawn.shape[0], *unit.shape)))
    require(each.shape == drawn.shape, f"{where}: draw_each gave the shape {each.shape}, draw {drawn.shape}")
    require(_close(each, drawn), f"{where}: draw_each differs from draw at the same points")
    _check_functions(posterior, unit, drawn, where)


def _check_noise(noise: Float[Array, " m"], num_levels: int, where: str) -> None:
    require(noise.shape == (num_levels,), f"{where}: noise has the shape {noise.shape}, not ({num_levels},)")
    require(bool(jnp.all(jnp.isfinite(noise) & (noise >= 0))), f"{where}: noise is {noise}, no variance")


def _check_functions(posterior: Posterior, unit: Float[Array, "q d"], drawn: Float[Array, "s q m"], where: str) -> None:
    """Check that functions are the same at every call, among other points and inside jit, and have gradients."""
    require(_close(posterior.draw(unit), drawn), f"{where}: a second call of draw gave other functions")
    require(
        _close(posterior.draw(unit[:1]), drawn[:, :1]),
        f"{where}: a point alone has other values than among others: draws must be functions, not fresh samples",
    )

    @jax.jit
    def inside(posterior: Posterior, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        return posterior.draw(unit)

    require(_close(inside(posterior, unit), drawn), f"{where}: draw inside jit differs: is the posterior a pytree?")
    for name, gradient in {
        "draw": jax.grad(lambda points: jnp.sum(posterior.draw(points)))(unit),
        "draw_each": jax.grad(lambda points: jnp.sum(posterior.draw_each(points)))(
            jnp.broadcast_to(unit[None], (drawn.shape[0], *unit.shape))
        ),
    }.items():
        require(bool(jnp.all(jnp.isfinite(gradient))), f"{where}: the gradient of {name} is not finite")


def _points(data: Dataset) -> Float[Array, "q d"]:
    """Return points between the data, corners of the cube, and an observed point, where distances are zero."""
    dim = data.unit.shape[1]
    uniform = jax.random.uniform(jax.random.key(2), (4, dim), data.unit.dtype)
    corners = jnp.stack([jnp.zeros(dim, uniform.dtype), jnp.ones(dim, uniform.dtype)])
    return jnp.concatenate([uniform, corners, data.unit[jnp.argmax(data.mask)][None]])


def _close(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(jnp.all(jnp.abs(one - other) <= CLOSE * (1.0 + jnp.abs(other))))
