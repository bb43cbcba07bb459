"""Physics-informed networks for Burgers' equation u_t + u u_x = nu u_xx, many trained at once by L-BFGS.

One network is far too small to fill a GPU, so networks of one depth and one (padded) width are trained side by side, a
lane each. The direction is that of `optax.scale_by_lbfgs`; optax's line search, however, would under `vmap` take both
its branches and wait for the slowest lane, six evaluations an iteration where one would do. So the line search here is
a machine whose tick is one evaluation of every lane: a lane that accepts its trial goes on to its next iteration at
once, while others still search. What a lane does hangs on nothing but itself, so neither blocks nor pauses matter.

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

from experiments.applications.linesearch import Search, begin, judge, narrow

VISCOSITY = 0.01 / math.pi

MEMORY = 50
"""Pairs that L-BFGS keeps: as Raissi et al. set SciPy's."""

WINDOW, IMPROVEMENT = 1000, 1e-2
"""A training has converged when so many iterations lowered its loss by less than this fraction: at that rate, all of
50,000 would lower the error, whose square the loss follows, by a fifth. Twice as many evaluations end a window as
well: near the end, rounding may leave an iteration to twenty trials."""

compiled = partial(jax.jit, static_argnames="shape", compiler_options={"xla_gpu_deterministic_ops": True})
"""Else XLA picks kernels on a GPU by timing them: two compilations round differently, and thousands of iterations make
much of that."""

RUNNING, CONVERGED, STUCK, NOT_FINITE = range(4)
"""Why a lane stopped: no more improvement, no descent along the gradient itself, or no finite loss to begin with."""

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
    """What a program is compiled for: hidden layers, their padded width, and lanes by activation, in order."""

    depth: int
    width: int
    lanes: tuple[tuple[str, int], ...]

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each layer."""
        widths = (2, *([self.width] * self.depth), 1)
        return tuple(pairwise(widths))


class Points(NamedTuple):
    """Where the networks are trained and judged, as (x, t)."""

    collocation: Float[Array, "n 2"]
    boundary: Float[Array, "b 2"]
    boundary_values: Float[Array, " b"]
    evaluation: Float[Array, "e 2"]
    solution: Float[Array, " e"]


class Lanes(NamedTuple):
    """Trainings under way, arrays with a lane each.

    Attributes:
        params: the last accepted ones, layer by layer weights then biases; `value` and `grad` are the loss there.
        memory: optax's own state of L-BFGS.
        direction: along which the trial of `search` lies.
        iterations: accepted steps; `evaluations` counts all trials.
        mark: iteration, evaluation and loss at the beginning of the window that convergence is judged by.
        status: `RUNNING` or why it stopped.
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
    """How far u, u_x, u_t, u_xx are from solving the equation: the paper's psi."""
    u, u_x, u_t, u_xx = (streams[..., index, :] for index in range(4))
    return u_t + u * u_x - VISCOSITY * u_xx


def _inputs(points: Float[Array, "n 2"], num_streams: int) -> Float[Array, "s n 2"]:
    """The four streams of the inputs, scaled to [-1, 1]: x is there already, t comes from [0, 1]."""
    ones, zeros = jnp.ones_like(points[:, 0]), jnp.zeros_like(points[:, 0])
    scaled = jnp.stack([points[:, 0], 2 * points[:, 1] - 1], axis=-1)
    slopes = [jnp.stack(pair, axis=-1) for pair in [(ones, zeros), (zeros, 2 * ones), (zeros, zeros)]]
    return jnp.stack([scaled, *slopes][:num_streams])


def _bend(activation: str, z: Float[Array, "l s n w"], mask: Float[Array, "l 1 w"]) -> Float[Array, "l s n w"]:
    """An activation of u with its derivatives by the chain rule; its own come from automatic differentiation.

    u alone needs the mask: the derivatives of a unit without weights are zero by themselves.
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
    """u, u_x, u_t and u_xx of every lane (or u alone), by forward propagation through all layers at once.

    The mask has ones at a lane's own units: where a padded unit is kept at zero, its weights have no gradient.
    """
    hidden, start = _inputs(points, num), 0
    for depth, (fan_in, fan_out) in enumerate(shape.layers):
        middle, end = start + fan_in * fan_out, start + (fan_in + 1) * fan_out
        weights = params[:, start:middle].reshape(-1, fan_in, fan_out)
        pattern = "sni,lio->lsno" if depth == 0 else "lsni,lio->lsno"
        z = jnp.einsum(pattern, hidden, weights, precision=jax.lax.Precision.HIGHEST)
        # A scatter into the first stream would be a kernel of its own; this is fused.
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
    """The paper's loss: mean squared misfit at the boundary plus mean squared residual."""
    everywhere = jnp.concatenate([points.collocation, points.boundary])
    found, num = streams(shape, params, mask, everywhere), len(points.collocation)
    misfit = found[:, 0, num:] - points.boundary_values[None]
    return jnp.mean(misfit**2, axis=1) + jnp.mean(residual(found[..., :num]) ** 2, axis=1)


def _losses_and_grads(shape: Shape, params: Array, mask: Array, points: Points) -> tuple[Array, Array]:
    """Lanes do not touch each other, so the gradient of their sum is each one's own."""

    def total(params: Array) -> tuple[Array, Array]:
        each = losses(shape, params, mask, points)
        return each.sum(), each

    grad, value = jax.grad(total, has_aux=True)(params)
    return value, grad


@compiled
def relative_errors(shape: Shape, params: Float[Array, "l p"], mask: Array, points: Points) -> Float[Array, " l"]:
    """||u - solution|| / ||solution|| at the points of evaluation: the RMSE over the solution's own."""
    found = streams(shape, params, mask, points.evaluation, num=1)[:, 0]
    missed = jnp.linalg.norm(found - points.solution[None], axis=1)
    return missed / jnp.linalg.norm(points.solution)


def _descent(grad: Float[Array, " p"]) -> Float[Array, " p"]:
    """Down the gradient by at most a length of one: how optax begins, too."""
    return -grad * jnp.minimum(1.0, 1.0 / jnp.maximum(jnp.linalg.norm(grad), jnp.finfo(grad.dtype).tiny))


def _scaled(grad: Float[Array, " p"], memory: Any, params: Float[Array, " p"]) -> tuple[Any, Any]:
    """The gradient times the inverse Hessian that L-BFGS knows, and its memory with this point in it."""
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
    """Trainings at their first parameters."""
    return jax.vmap(_begin)(params, *_losses_and_grads(shape, params, mask, points))


def _advance(lane: Lanes, trial: Float[Array, " p"], value: Float[Array, ""], grad: Float[Array, " p"]) -> Lanes:
    """What one lane makes of the loss at its trial: the next iteration, or the next trial of this one."""
    slope = grad @ lane.direction
    verdict = judge(lane.search, lane.value, value, slope, grad)
    scaled, memory = _scaled(grad, lane.memory, trial)

    def accepted(new: Any, old: Any) -> Any:
        return jax.tree.map(partial(jnp.where, verdict.accept), new, old)

    # A direction that does not descend, a pair of wrong curvature and a search that found nothing have one cure, as in
    # SciPy: forget all pairs and go down the gradient. Where that finds nothing either, the training ends.
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
    """Which lanes go on up to so many iterations."""
    return (lanes.status == RUNNING) & (lanes.iterations < limit)


@partial(compiled, donate_argnames="lanes")
def advance(
    shape: Shape, lanes: Lanes, mask: Float[Array, "l w"], points: Points, *, limit: int | Array, ticks: int | Array
) -> Lanes:
    """At most so many evaluations more, each lane to at most so many iterations in all; `lanes` is used up."""

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
