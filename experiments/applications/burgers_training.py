"""Train many physics-informed networks at once, with L-BFGS, for Burgers' equation u_t + u u_x = nu u_xx.

One network is far too small to fill a GPU. So networks of the same depth and the same (padded) width are trained side
by side, each in its own lane. The direction comes from `optax.scale_by_lbfgs`. The line search of optax is not used:
under `vmap` it would take both branches and wait for the slowest lane, with six evaluations per iteration instead of
about one. The line search here is a state machine. One tick is one evaluation of every lane. A lane that accepts its
trial begins its next iteration at once, while others still search. A lane does not depend on the other lanes, so it
makes no difference where a training is paused.

Shape letters: l lanes, s streams (u, u_x, u_t, u_xx), n points, w units of a hidden layer, p parameters of a lane.
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from experiments.applications.line_search import Search, begin, judge, narrow

VISCOSITY = 0.01 / math.pi

MEMORY = 50
"""Pairs that L-BFGS keeps, as in the program of Raissi et al."""

WINDOW, IMPROVEMENT = 1000, 1e-2
"""A training has converged if `WINDOW` iterations lowered its loss by less than the fraction `IMPROVEMENT`. At that
rate, all 50,000 iterations would lower the error (the loss follows its square) by a fifth. Twice as many evaluations
end a window too, because near the end rounding can cost an iteration twenty trials."""

compiled = partial(jax.jit, static_argnames="shape", compiler_options={"xla_gpu_deterministic_ops": True})
"""Without this option XLA chooses kernels on a GPU by timing them. Then two compilations round differently, and
thousands of iterations amplify the difference."""

RUNNING, CONVERGED, STUCK, NOT_FINITE = range(4)
"""The status of a lane: running, stopped without improvement, without descent along the gradient, or without a finite
loss at its start."""

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "softplus": jax.nn.softplus,
    "swish": jax.nn.silu,
    "sine": jnp.sin,
}


@dataclass(frozen=True)
class Shape:
    """Describe what a program is compiled for: hidden layers, their padded width, and lanes by activation, in order."""

    depth: int
    width: int
    lanes: tuple[tuple[str, int], ...]

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Return the inputs and outputs of each layer."""
        widths = (2, *([self.width] * self.depth), 1)
        return tuple(pairwise(widths))


class Points(NamedTuple):
    """Hold the points (x, t) at which the networks are trained and judged."""

    collocation: Float[Array, "n 2"]
    boundary: Float[Array, "b 2"]
    boundary_values: Float[Array, " b"]
    evaluation: Float[Array, "e 2"]
    solution: Float[Array, " e"]


class Lanes(NamedTuple):
    """Hold running trainings as arrays whose first axis is the lane.

    Attributes:
        params: the last accepted parameters: layer by layer, weights and then biases.
        value: the loss at these parameters.
        grad: its gradient.
        memory: the L-BFGS state of optax.
        direction: the direction of the current search.
        search: the state of the line search.
        iterations: the number of accepted steps.
        evaluations: the number of all trials.
        mark: the iteration, the evaluation and the loss at the beginning of the window for convergence.
        status: `RUNNING`, or why the lane stopped.
    """

    params: Float[Array, "*l p"]
    value: Float[Array, "*l"]
    grad: Float[Array, "*l p"]
    memory: Any
    direction: Float[Array, "*l p"]
    search: Search
    iterations: Int[Array, "*l"]
    evaluations: Int[Array, "*l"]
    mark: tuple[Int[Array, "*l"], Int[Array, "*l"], Float[Array, "*l"]]
    status: Int[Array, "*l"]


def residual(streams: Float[Array, "*l 4 n"]) -> Float[Array, "*l n"]:
    """Return how far u, u_x, u_t, u_xx are from solving the equation: the paper's psi."""
    u, u_x, u_t, u_xx = (streams[..., index, :] for index in range(4))
    return u_t + u * u_x - VISCOSITY * u_xx


def _inputs(points: Float[Array, "n 2"], num_streams: int) -> Float[Array, "s n 2"]:
    """Return the streams of the inputs, scaled to [-1, 1]. x has this range already; t comes from [0, 1]."""
    ones, zeros = jnp.ones_like(points[:, 0]), jnp.zeros_like(points[:, 0])
    scaled = jnp.stack([points[:, 0], 2 * points[:, 1] - 1], axis=-1)
    slopes = [jnp.stack(pair, axis=-1) for pair in [(ones, zeros), (zeros, 2 * ones), (zeros, zeros)]]
    return jnp.stack([scaled, *slopes][:num_streams])


def _bend(activation: str, z: Float[Array, "l s n w"], mask: Float[Array, "l 1 w"]) -> Float[Array, "l s n w"]:
    """Apply an activation to u, and the chain rule to its derivatives.

    The derivatives of the activation come from automatic differentiation. Only u needs the mask, because the
    derivatives of a unit without weights are zero anyway.
    """
    function = ACTIVATIONS[activation]
    if z.shape[1] == 1:
        return function(z) * mask[:, None]
    u, u_x, u_t, u_xx = (z[:, index] for index in range(4))

    def slope(at: Array) -> Array:
        return jax.jvp(function, (at,), (jnp.ones_like(at),))[1]

    first, second = jax.jvp(slope, (u,), (jnp.ones_like(u),))
    return jnp.stack([function(u) * mask, first * u_x, first * u_t, second * u_x**2 + first * u_xx], axis=1)


def streams(
    shape: Shape, params: Float[Array, "l p"], mask: Float[Array, "l w"], points: Float[Array, "n 2"], num: int = 4
) -> Float[Array, "l s n"]:
    """Return u, u_x, u_t and u_xx of every lane (or only u), by forward propagation through all layers.

    The mask is one at a lane's own units. It keeps padded units at zero, so that their weights have no gradient.
    """
    hidden, start = _inputs(points, num), 0
    for depth, (fan_in, fan_out) in enumerate(shape.layers):
        middle, end = start + fan_in * fan_out, start + (fan_in + 1) * fan_out
        weights = params[:, start:middle].reshape(-1, fan_in, fan_out)
        pattern = "sni,lio->lsno" if depth == 0 else "lsni,lio->lsno"
        z = jnp.einsum(pattern, hidden, weights, precision=jax.lax.Precision.HIGHEST)
        # A scatter into the first stream would need a kernel of its own. The padding is fused.
        z += jnp.pad(params[:, None, None, middle:end], ((0, 0), (0, num - 1), (0, 0), (0, 0)))
        if depth == shape.depth:
            return z[..., 0]
        bent, first = [], 0
        for activation, count in shape.lanes:
            part = slice(first, first + count)
            bent.append(_bend(activation, z[part], mask[part, None, :]))
            first += count
        hidden = jnp.concatenate(bent)
        start = end
    raise AssertionError("a network has an output layer")


def losses(shape: Shape, params: Float[Array, "l p"], mask: Float[Array, "l w"], points: Points) -> Float[Array, " l"]:
    """Return the paper's loss: mean squared error at the boundary plus mean squared residual."""
    everywhere = jnp.concatenate([points.collocation, points.boundary])
    found, num = streams(shape, params, mask, everywhere), len(points.collocation)
    misfit = found[:, 0, num:] - points.boundary_values[None]
    return jnp.mean(misfit**2, axis=1) + jnp.mean(residual(found[..., :num]) ** 2, axis=1)


def _losses_and_grads(shape: Shape, params: Array, mask: Array, points: Points) -> tuple[Array, Array]:
    """Return the losses of all lanes and their gradients, from the gradient of the sum: lanes are independent."""

    def total(params: Array) -> tuple[Array, Array]:
        each = losses(shape, params, mask, points)
        return each.sum(), each

    grad, value = jax.grad(total, has_aux=True)(params)
    return value, grad


@compiled
def relative_errors(shape: Shape, params: Float[Array, "l p"], mask: Array, points: Points) -> Float[Array, " l"]:
    """Return ||u - solution|| / ||solution|| at the evaluation points of every lane."""
    found = streams(shape, params, mask, points.evaluation, num=1)[:, 0]
    missed = jnp.linalg.norm(found - points.solution[None], axis=1)
    return missed / jnp.linalg.norm(points.solution)


def _descent(grad: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return the negative gradient, shortened to a length of at most one, as optax does for its first step."""
    return -grad * jnp.minimum(1.0, 1.0 / jnp.maximum(jnp.linalg.norm(grad), jnp.finfo(grad.dtype).tiny))


def _scaled(grad: Float[Array, " p"], memory: Any, params: Float[Array, " p"]) -> tuple[Any, Any]:
    """Return the gradient times the L-BFGS estimate of the inverse Hessian, and the memory with this point added."""
    return optax.scale_by_lbfgs(MEMORY).update(grad, memory, params)


def _begin(params: Float[Array, " p"], value: Float[Array, ""], grad: Float[Array, " p"]) -> Lanes:
    _, memory = _scaled(grad, optax.scale_by_lbfgs(MEMORY).init(params), params)
    direction, none = _descent(grad), jnp.zeros((), jnp.int32)
    finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(grad))
    status = jnp.where(finite, RUNNING, NOT_FINITE).astype(jnp.int32)
    search = begin(value, direction @ grad)
    return Lanes(params, value, grad, memory, direction, search, none, none + 1, (none, none + 1, value), status)


@compiled
def start(shape: Shape, params: Float[Array, "l p"], mask: Float[Array, "l w"], points: Points) -> Lanes:
    """Return trainings at their first parameters."""
    return jax.vmap(_begin)(params, *_losses_and_grads(shape, params, mask, points))


def _advance(lane: Lanes, trial: Float[Array, " p"], value: Float[Array, ""], grad: Float[Array, " p"]) -> Lanes:
    """Return one lane after the evaluation of its trial: at its next iteration, or at the next trial of this one."""
    slope = grad @ lane.direction
    verdict = judge(lane.search, lane.value, value, slope, grad)
    scaled, memory = _scaled(grad, lane.memory, trial)

    def accepted(new: Any, old: Any) -> Any:
        return jax.tree.map(partial(jnp.where, verdict.accept), new, old)

    # Three cases have the same remedy, as in SciPy: a direction that does not descend, a pair of wrong curvature, and a
    # search that found nothing. All pairs are forgotten, and the direction is the negative gradient. If that search
    # finds nothing either, the training ends.
    forget = (verdict.accept & ~((scaled @ grad > 0) & verdict.curved)) | verdict.exhausted
    memory = accepted(memory, lane.memory)
    memory = memory._replace(
        weights_memory=jnp.where(forget, jnp.zeros_like(memory.weights_memory), memory.weights_memory),
        count=jnp.where(forget, 1, memory.count),
    )
    params, loss, grad = accepted((trial, value, grad), (lane.params, lane.value, lane.grad))
    direction = jnp.where(forget, _descent(grad), accepted(-scaled, lane.direction))
    renew = partial(jnp.where, verdict.accept | verdict.exhausted)
    search = jax.tree.map(renew, begin(loss, direction @ grad), narrow(lane.search, verdict, value, slope))
    iterations = lane.iterations + verdict.accept
    (marked, tried, before), evaluations = lane.mark, lane.evaluations + 1
    due = (iterations - marked >= WINDOW) | (evaluations - tried >= 2 * WINDOW)
    mark = (jnp.where(due, iterations, marked), jnp.where(due, evaluations, tried), jnp.where(due, loss, before))
    status = jnp.where(due & (before - loss < IMPROVEMENT * before), CONVERGED, lane.status)
    status = jnp.where(verdict.exhausted & (lane.memory.count <= 1), STUCK, status)
    return Lanes(params, loss, grad, memory, direction, search, iterations, evaluations, mark, status)


def active(lanes: Lanes, limit: int | Int[Array, ""]) -> Bool[Array, " l"]:
    """Return which lanes are running and below a number of iterations."""
    return (lanes.status == RUNNING) & (lanes.iterations < limit)


@partial(compiled, donate_argnames="lanes")
def advance(
    shape: Shape, lanes: Lanes, mask: Float[Array, "l w"], points: Points, *, limit: int | Array, ticks: int | Array
) -> Lanes:
    """Run at most `ticks` more evaluations, up to `limit` iterations of each lane in total. `lanes` is consumed."""

    def goes_on(carry: tuple[Array, Lanes]) -> Array:
        return (carry[0] < ticks) & jnp.any(active(carry[1], limit))

    def tick(carry: tuple[Array, Lanes]) -> tuple[Array, Lanes]:
        num, old = carry
        trial = old.params + old.search.step[:, None] * old.direction
        new = jax.vmap(_advance)(old, trial, *_losses_and_grads(shape, trial, mask, points))
        going = active(old, limit)

        def keep(fresh: Array, stale: Array) -> Array:
            return jnp.where(going.reshape(-1, *[1] * (fresh.ndim - 1)), fresh, stale)

        return num + 1, jax.tree.map(keep, new, old)

    return jax.lax.while_loop(goes_on, tick, (jnp.zeros((), jnp.int32), lanes))[1]
