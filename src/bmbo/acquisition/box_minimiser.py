"""Minimise many functions over the unit cube at once, by projected L-BFGS in one loop.

This is written by hand because no library does it: SciPy's L-BFGS-B runs one start at a time on the host, and the
L-BFGS of optax has no bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

ARMIJO = 1e-4  # required share of the predicted decrease: the usual value (Nocedal and Wright, chapter 3)
NEAR_BOUND = 1e-3  # width of the band at a bound; a coordinate in it whose gradient points outwards moves to the bound
FIRST_STEP = 0.1  # length of a step along the gradient alone: the cube has side one, the function any scale
SHORTEST = 1e-5  # share of a direction below which the line search stops


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BoxMinimum:
    """Hold where each row ended.

    Attributes:
        unit, value: the best point of each row and its value.
        gradient_norm: largest coordinate of the projected gradient: zero at a stationary point, also on the boundary.
        steps: number of evaluations of the function and its gradient, each for all rows at once.
    """

    unit: Float[Array, "b d"]
    value: Float[Array, " b"]
    gradient_norm: Float[Array, " b"]
    steps: Int[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _State:
    """Hold the state of every row; rows are independent: one may search along its line while another takes a step."""

    unit: Float[Array, "b d"]
    value: Float[Array, " b"]
    gradient: Float[Array, "b d"]
    direction: Float[Array, "b d"]
    length: Float[Array, " b"]  # share of the direction that is tried next
    moves: Float[Array, "k b d"]  # newest first; zeros if there are fewer
    turns: Float[Array, "k b d"]  # change of the gradient in each move
    done: Bool[Array, " b"]
    steps: Int[Array, ""]


def minimise_box(
    function: Callable[[Float[Array, "b d"]], Float[Array, " b"]],
    start: Float[Array, "b d"],
    *,
    max_steps: int,
    memory: int = 8,
    tolerance: float = 1e-5,
) -> BoxMinimum:
    """Return the minimum of each row's value over the unit cube, never above the value at the start.

    The method is projected L-BFGS with two metrics (Bertsekas 1982). The function must be separable over rows. One
    evaluation of it and its gradient is one step for every row: if a row rejects its trial, only this row loses a step.
    Trials that are not finite are rejected. A row whose start is not finite stays there with the value infinity.
    """
    start = jnp.clip(start, 0.0, 1.0)
    rows = start.shape[0]
    history = jnp.zeros((memory, *start.shape), start.dtype)
    # Without a value and a direction, the first trial is the start itself. So the function is traced only once.
    state = _State(
        unit=start,
        value=jnp.full(rows, jnp.inf, start.dtype),
        gradient=jnp.zeros_like(start),
        direction=jnp.zeros_like(start),
        length=jnp.ones(rows, start.dtype),
        moves=history,
        turns=history,
        done=jnp.zeros(rows, bool),
        steps=jnp.zeros((), jnp.int32),
    )

    def summed(unit: Float[Array, "b d"]) -> tuple[Float[Array, ""], Float[Array, " b"]]:
        value = function(unit).astype(start.dtype)
        return jnp.sum(value), value

    def step(state: _State) -> _State:
        trial = jnp.clip(state.unit + state.length[:, None] * state.direction, 0.0, 1.0)
        (_, value), gradient = jax.value_and_grad(summed, has_aux=True)(trial)
        return _advance(state, trial, value, gradient, tolerance)

    def going(state: _State) -> Bool[Array, ""]:
        return ~jnp.all(state.done) & (state.steps < max_steps)

    state = lax.while_loop(going, step, state)
    return BoxMinimum(state.unit, state.value, _projected_norm(state.unit, state.gradient), state.steps)


def _advance(
    state: _State,
    trial: Float[Array, "b d"],
    value: Float[Array, " b"],
    gradient: Float[Array, "b d"],
    tolerance: float,
) -> _State:
    """Return the state after each row has taken or rejected its trial, with the next trial set."""
    move = trial - state.unit
    slope = jnp.sum(state.gradient * move, axis=1)
    finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient), axis=1)
    # A path along the bounds may have a positive slope. The value must not rise even then.
    taken = finite & (value <= state.value + ARMIJO * jnp.minimum(slope, 0.0)) & ~state.done
    first = jnp.isinf(state.value)
    turn = jnp.where(first[:, None], 0.0, gradient - state.gradient)
    gained = jnp.where(first, jnp.inf, state.value - value)

    moves = _pushed(state.moves, move, taken)
    turns = _pushed(state.turns, turn, taken)
    unit = jnp.where(taken[:, None], trial, state.unit)
    new_gradient = jnp.where(taken[:, None], gradient, state.gradient)

    shorter = state.length * _shrink(state.value, value, slope)
    given_up = ~taken & (shorter < SHORTEST)
    # If a line has no lower point, old curvature may be the cause: try the gradient alone before stopping.
    bare = jnp.all(moves == 0.0, axis=(0, 2))
    moves = jnp.where(given_up[None, :, None], 0.0, moves)
    turns = jnp.where(given_up[None, :, None], 0.0, turns)
    turned = taken | given_up
    direction = jnp.where(turned[:, None], _direction(unit, new_gradient, moves, turns), state.direction)

    # A decrease smaller than the rounding of the value shows nothing more.
    flat = taken & (gained <= jnp.finfo(value.dtype).eps * jnp.abs(value))
    still = taken & (_projected_norm(unit, new_gradient) <= tolerance)
    return _State(
        unit=unit,
        value=jnp.where(taken, value, state.value),
        gradient=new_gradient,
        direction=direction,
        length=jnp.where(turned, 1.0, shorter),
        moves=moves,
        turns=turns,
        done=state.done | flat | still | (given_up & bare),
        steps=state.steps + 1,
    )


def _projected_norm(unit: Float[Array, "b d"], gradient: Float[Array, "b d"]) -> Float[Array, " b"]:
    return jnp.max(jnp.abs(unit - jnp.clip(unit - gradient, 0.0, 1.0)), axis=1)


def _pushed(
    history: Float[Array, "k b d"], new: Float[Array, "b d"], taken: Bool[Array, " b"]
) -> Float[Array, "k b d"]:
    """Return the history with a new entry in front for rows that took their trial."""
    shifted = jnp.concatenate([new[None], history[:-1]])
    return jnp.where(taken[None, :, None], shifted, history)


def _shrink(low: Float[Array, " b"], high: Float[Array, " b"], slope: Float[Array, " b"]) -> Float[Array, " b"]:
    """Return the factor to the minimum of the parabola through both values and the slope, limited to [0.1, 0.5]."""
    parabola = -slope / (2.0 * (high - low - slope))
    return jnp.clip(jnp.where(jnp.isfinite(parabola), parabola, 0.25), 0.1, 0.5)


def _direction(
    unit: Float[Array, "b d"], gradient: Float[Array, "b d"], moves: Float[Array, "k b d"], turns: Float[Array, "k b d"]
) -> Float[Array, "b d"]:
    """Return the quasi-Newton direction on the free coordinates; coordinates held by a bound move to it."""
    band = jnp.minimum(NEAR_BOUND, _projected_norm(unit, gradient))[:, None]
    to_low, to_high = (unit <= band) & (gradient > 0.0), (unit >= 1.0 - band) & (gradient < 0.0)
    free = jnp.where(to_low | to_high, 0.0, 1.0)
    steepest = -gradient * free
    size = jnp.linalg.norm(steepest, axis=1, keepdims=True)
    tiny = jnp.finfo(unit.dtype).tiny
    moves, turns = moves * free[None], turns * free[None]
    newton = _two_loops(steepest, moves, turns)
    length = jnp.linalg.norm(newton, axis=1, keepdims=True)
    # The angle to the gradient is below 90 degrees by more than rounding, and there is curvature information.
    downhill = jnp.sum(newton * steepest, axis=1, keepdims=True) > 1e-4 * length * size
    curved = jnp.any(_curvature(moves, turns) > 0.0, axis=0)[:, None]
    direction = jnp.where(downhill & curved, newton, steepest * (FIRST_STEP / jnp.maximum(size, tiny)))
    return jnp.where(to_low, -unit, jnp.where(to_high, 1.0 - unit, direction))


def _curvature(moves: Float[Array, "k b d"], turns: Float[Array, "k b d"]) -> Float[Array, "k b"]:
    """Return the reciprocal curvature of each pair; zero, which leaves the pair out, if it is not safely positive."""
    along = jnp.sum(moves * turns, axis=-1)
    safe = along > 1e-6 * jnp.linalg.norm(moves, axis=-1) * jnp.linalg.norm(turns, axis=-1)
    return jnp.where(safe, 1.0 / jnp.where(safe, along, 1.0), 0.0)


def _two_loops(
    steepest: Float[Array, "b d"], moves: Float[Array, "k b d"], turns: Float[Array, "k b d"]
) -> Float[Array, "b d"]:
    """Return the inverse Hessian of the stored pairs times a vector (Nocedal and Wright, algorithm 7.4)."""
    curvature = _curvature(moves, turns)
    pairs = (moves, turns, curvature)

    def newest_to_oldest(vector: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        move, turn, inverse = pair
        weight = inverse * jnp.sum(move * vector, axis=-1)
        return vector - weight[:, None] * turn, weight

    def oldest_to_newest(vector: Array, pair: tuple[tuple[Array, Array, Array], Array]) -> tuple[Array, None]:
        (move, turn, inverse), weight = pair
        return vector + (weight - inverse * jnp.sum(turn * vector, axis=-1))[:, None] * move, None

    vector, weights = lax.scan(newest_to_oldest, steepest, pairs)
    newest = jnp.argmax(curvature > 0.0, axis=0)
    turn = jnp.take_along_axis(turns, newest[None, :, None], axis=0)[0]
    inverse = jnp.take_along_axis(curvature, newest[None], axis=0)[0]
    scale = inverse * jnp.sum(turn * turn, axis=-1)  # size of the Hessian along the newest safe pair
    vector = vector / jnp.where(scale > 0.0, scale, 1.0)[:, None]
    vector, _ = lax.scan(oldest_to_newest, vector, (pairs, weights), reverse=True)
    return vector
