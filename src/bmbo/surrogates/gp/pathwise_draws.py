"""Draw functions from the posterior of one level, by pathwise conditioning (Wilson et al. 2020, 2021).

A function is a draw from the prior, in random Fourier features, plus the exact update that makes it fit the data. With
nearly no noise, the weights of the update reach 1e7. On Branin's 65 top points, a sum in single precision was wrong by
0.9 standardised units, and the draws here by 7e-6. So the update is always computed in double precision, and everything
else in single precision.

This is written by hand because libraries draw values at given points, and we need functions: the same draw is evaluated
at any point, inside jit, with a gradient, and with its own lower outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import solve_triangular

from bmbo.surrogates.darn_networks import cosine
from bmbo.surrogates.gp.kernels import Floats, correlation, correlation_and_slope, frequencies, square_distance
from bmbo.surrogates.gp.level_model import (
    JITTER,
    NUM_BENDS,
    Hyper,
    bend_basis,
    bend_features,
    link_features,
    robust_factor,
)


def in_double(function: Callable[..., Float[Array, "*s"]]) -> Callable[..., Float[Array, "*s"]]:
    """Return the function with double precision inside, forwards and backwards, and single precision outside.

    Derivatives are traced when a caller asks for them, outside any context that we set. So the function has its own
    rule.
    """

    def inside(*arguments: Any) -> Float[Array, "*s"]:
        return function(*jax.tree.map(lambda leaf: leaf.astype(jnp.float64), arguments))

    @jax.custom_vjp
    def wrapped(*arguments: Any) -> Float[Array, "*s"]:
        with jax.enable_x64(True):
            return inside(*arguments).astype(jnp.float32)

    def forward(*arguments: Any) -> tuple[Float[Array, "*s"], Any]:
        return wrapped(*arguments), arguments

    def backward(arguments: Any, cotangent: Float[Array, "*s"]) -> Any:
        with jax.enable_x64(True):
            return jax.vjp(inside, *arguments)[1](cotangent.astype(jnp.float64))

    wrapped.defvjp(forward, backward)
    return wrapped


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Waves:
    """Hold functions that are sums of cosines: t under each of h sets of f frequencies; scales are included."""

    frequency: Float[Array, "h f e"]
    phase: Float[Array, "h f"]
    weights: Float[Array, "h t f"]

    def shared(self, inputs: Float[Array, "q e"]) -> Float[Array, "h t q"]:
        """Return all functions at the same inputs."""
        phi = cosine(jnp.einsum("qe,hfe->hqf", inputs, self.frequency) + self.phase[:, None])
        return jnp.einsum("hqf,htf->htq", phi, self.weights)

    def own(self, inputs: Float[Array, "h t q e"]) -> Float[Array, "h t q"]:
        """Return each function at its own inputs."""
        phi = cosine(jnp.einsum("htqe,hfe->htqf", inputs, self.frequency) + self.phase[:, None, None])
        return jnp.einsum("htqf,htf->htq", phi, self.weights)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LevelDraws:
    """Hold t functions under each of h hyperparameters.

    Attributes:
        waves: draws of the process's prior.
        links: offsets of the functions, and weights of the lower outputs.
        bends: weights of the cosines of the lower outputs; `bent` says whether there are any.
        log_length, roughness: of the process, for the kernel between points and observations.
        update: weights of the kernel, with the amplitude; zeros where padded.
        unit: the observed points.
        noise: variance of an observation, under each of the hyperparameters.
    """

    waves: Waves
    links: Float[Array, "h t l"]
    bends: Waves
    bent: Float[Array, ""]
    log_length: Float[Array, "h d"]
    roughness: Float[Array, " h"]
    update: Float[Array, "h t n"]
    unit: Float[Array, "n d"]
    noise: Float[Array, " h"]

    @property
    def num_draws(self) -> int:
        """Return the number of functions."""
        return self.links.shape[0] * self.links.shape[1]

    def draw(self, unit: Float[Array, "q d"], lower: Float[Array, "s q k"]) -> Float[Array, "s q"]:
        """Return every function at shared points, each with its own lower outputs there."""
        own = self.waves.shared(unit) + shared_update(unit, self.unit, self.log_length, self.roughness, self.update)
        each = jnp.broadcast_to(unit, (lower.shape[0], *unit.shape))
        return own.reshape(lower.shape[:2]) + self._linked(each, lower)

    def draw_each(self, unit: Float[Array, "s q d"], lower: Float[Array, "s q k"]) -> Float[Array, "s q"]:
        """Return each function at its own points."""
        by_hyper = self._by_hyper(unit)
        update = own_update(by_hyper, self.unit, self.log_length, self.roughness, self.update)
        return (self.waves.own(by_hyper) + update).reshape(unit.shape[:2]) + self._linked(unit, lower)

    def _by_hyper(self, each: Float[Array, "s q e"]) -> Float[Array, "h t q e"]:
        return each.reshape(*self.links.shape[:2], *each.shape[1:])

    def _linked(self, unit: Float[Array, "s q d"], lower: Float[Array, "s q k"]) -> Float[Array, "s q"]:
        """Return what the lower outputs add; the cosines are skipped if no draw has them."""
        links = self.links.reshape(-1, self.links.shape[-1])
        linear = links[:, :1] + jnp.einsum("sqk,sk->sq", lower, links[:, 1:])
        if lower.shape[-1] == 0:
            return linear

        def curved() -> Float[Array, "s q"]:
            inputs = self._by_hyper(jnp.concatenate([unit, lower], axis=-1))
            return linear + self.bends.own(inputs).reshape(linear.shape)

        return jax.lax.cond(self.bent > 0.5, curved, lambda: linear)


@in_double
def shared_update(
    unit: Float[Array, "q d"],
    at: Float[Array, "n d"],
    log_length: Float[Array, "h d"],
    roughness: Float[Array, " h"],
    update: Float[Array, "h t n"],
) -> Float[Array, "h t q"]:
    """Return the kernel between shared points and the observations, times the weights of every function."""

    def each(
        log_length: Float[Array, " d"], roughness: Float[Array, ""], update: Float[Array, "t n"]
    ) -> Float[Array, "t q"]:
        return update @ correlation(square_distance(at, unit, log_length), roughness)

    return jax.vmap(each)(log_length, roughness, update)


@in_double
def own_update(
    unit: Float[Array, "h t q d"],
    at: Float[Array, "n d"],
    log_length: Float[Array, "h d"],
    roughness: Float[Array, " h"],
    update: Float[Array, "h t n"],
) -> Float[Array, "h t q"]:
    """Return the kernel between each function's own points and the observations, times its weights."""

    def each(
        unit: Float[Array, "t q d"],
        log_length: Float[Array, " d"],
        roughness: Float[Array, ""],
        update: Float[Array, "t n"],
    ) -> Float[Array, "t q"]:
        square = square_distance(unit.reshape(-1, unit.shape[-1]), at, log_length)
        return jnp.einsum("tqn,tn->tq", correlation(square, roughness).reshape(*unit.shape[:2], -1), update)

    return jax.vmap(each)(unit, log_length, roughness, update)


def drawn_rows(count: int) -> int:
    """Return the number of observations that draws have room for: 32, 128, 512 and so on.

    Every new number compiles everything that uses draws, which takes half a minute. Room for four times as many
    observations costs little, because a draw has hundreds of features in any case.
    """
    rows = 32
    while rows < count:
        rows *= 4
    return rows


def condition(
    rng: np.random.Generator,
    unit: Floats,
    lower: Floats,
    value: Floats,
    hypers: Sequence[Hyper],
    *,
    num_features: int,
    num_rows: int,
) -> LevelDraws:
    """Return functions given observations [n d], [n]; each has its own lower outputs at the observed points [s n k].

    The update is padded to `num_rows`, so that draws from more observations have the same shape.
    """
    groups = np.split(lower, len(hypers))
    parts = [
        _condition(rng, unit, group, value, hyper, num_features=num_features)
        for group, hyper in zip(groups, hypers, strict=True)
    ]
    frequency, phase, weights, regression, update = (np.stack(part) for part in zip(*parts, strict=True))
    missing = num_rows - len(value)
    update, unit = np.pad(update, ((0, 0), (0, 0), (0, missing))), np.pad(unit, ((0, missing), (0, 0)))
    num_links = 1 + lower.shape[-1]
    return LevelDraws(
        waves=Waves(*(jnp.asarray(part, jnp.float32) for part in (frequency, phase, weights))),
        links=jnp.asarray(regression[..., :num_links], jnp.float32),
        bends=_bends(hypers, unit.shape[1], lower.shape[-1], regression[..., num_links:]),
        bent=jnp.asarray(float(any(hyper.structure.bent for hyper in hypers)), jnp.float32),
        log_length=double([np.log(hyper.length) for hyper in hypers]),
        roughness=double([hyper.structure.roughness for hyper in hypers]),
        update=double(update),
        unit=double(unit),
        noise=jnp.asarray([hyper.noise for hyper in hypers], jnp.float32),
    )


def double(numbers: Any) -> Array:
    """Return an array in double precision, whatever the precision of the caller."""
    with jax.enable_x64(True):
        return jnp.asarray(np.asarray(numbers, np.float64))


def _bends(hypers: Sequence[Hyper], dim: int, num_lower: int, weights: Floats) -> Waves:
    basis, phase = bend_basis(dim, num_lower)
    lengths = np.stack([np.repeat(hyper.bend_length, [dim] + [1] * num_lower) for hyper in hypers])
    sizes = np.asarray([np.sqrt(hyper.bend / NUM_BENDS) for hyper in hypers])
    return Waves(
        jnp.asarray(basis / lengths[:, None], jnp.float32),
        jnp.asarray(np.tile(phase, (len(hypers), 1)), jnp.float32),
        jnp.asarray(sizes[:, None, None] * weights, jnp.float32),
    )


def _condition(
    rng: np.random.Generator, unit: Floats, lower: Floats, value: Floats, hyper: Hyper, *, num_features: int
) -> tuple[Floats, ...]:
    """Return frequencies, phases and weights of the process, weights of the regression, and weights of the update."""
    num, dim, structure = len(lower), unit.shape[1], hyper.structure
    frequency = frequencies(rng, num_features, dim, structure.roughness) / hyper.length
    phase = rng.uniform(0.0, 2.0 * np.pi, num_features)
    weights = np.sqrt(hyper.amplitude / num_features) * rng.standard_normal((num, num_features))
    # Rounded like the stored draws, so that the update corrects exactly these.
    frequency, phase, weights = (part.astype(np.float32).astype(np.float64) for part in (frequency, phase, weights))
    process = np.sqrt(2.0) * weights @ np.cos(unit @ frequency.T + phase).T
    noise = np.sqrt(hyper.noise) * rng.standard_normal(process.shape)
    phi = link_features(lower, hyper)
    if structure.bent:
        phi = np.concatenate([phi, bend_features(unit, lower, hyper)], axis=-1)
    start = rng.standard_normal((num, 1 + lower.shape[-1] + NUM_BENDS))
    start[:, 1 : 1 + lower.shape[-1]] *= structure.linked
    start[:, 1 + lower.shape[-1] :] *= structure.bent
    used = start[:, : phi.shape[-1]]
    residual = value - process - noise - np.einsum("tnl,tl->tn", phi, used)
    moved, update = _solved(unit, phi, residual, hyper)
    used += moved
    return frequency, phase, weights, start, hyper.amplitude * update


def _solved(unit: Floats, phi: Floats, residual: Floats, hyper: Hyper) -> tuple[Floats, Floats]:
    """Return what is added to the regression's weights, and K^-1 times the rest, for every draw.

    One factor serves all draws, because the regression, which differs between them, has few weights.
    """
    num, rows, size = phi.shape
    if rows == 0:
        return np.zeros((num, size)), residual
    square = np.sum((unit[:, None] / hyper.length - unit[None] / hyper.length) ** 2, axis=-1)
    covariance = hyper.amplitude * correlation_and_slope(square, hyper.structure.roughness)[0]
    covariance[np.diag_indices_from(covariance)] += hyper.noise + JITTER * hyper.amplitude
    factor = robust_factor(covariance)
    white = solve_triangular(factor, residual.T, lower=True).T
    side = solve_triangular(factor, np.swapaxes(phi, 0, 1).reshape(rows, -1), lower=True).reshape(rows, num, size)
    gram = np.einsum("itl,itk->tlk", side, side) + np.eye(size)
    moved = np.linalg.solve(gram, np.einsum("itl,ti->tl", side, white)[..., None])[..., 0]
    left = white - np.einsum("itl,tl->ti", side, moved)
    return moved, solve_triangular(factor, left.T, lower=True, trans=1).T
