"""Check what every policy and every surrogate must do."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bmbo.history import Dataset, History, Outcome, Query
from bmbo.problem import Problem
from bmbo.protocols import Policy, Posterior, Surrogate
from bmbo.testing.require import require

CLOSE = 1e-3
"""Largest difference between two ways to one standardised value: float32 through a few hundred products."""

Respond = Callable[[Query, int], float | None]
"""Map a query and the number of its trial to its value; None leaves the trial in flight."""


def check_policy(policy: Policy, problem: Problem, *, num: int = 3, rounds: int = 3, seed: int = 0) -> None:
    """Raise AssertionError unless a policy suggests valid queries for a few rounds in each of several situations.

    Choose `num * rounds` large enough to get past the random start of a policy.

    Example:
        >>> check_policy(MyPolicy(), Problem(space, ladder), num=3, rounds=3)
    """
    require(isinstance(policy, Policy), f"{policy!r} has no `suggest`")
    for story, respond in _STORIES.items():
        history, carry = History(problem), None
        for round_ in range(rounds):
            where = f"{story}, round {round_}"
            queries, carry = _suggested(policy, seed, history, num=num, carry=carry, where=where)
            _check_queries(queries, history, num, where)
            history = _answered(history, queries, respond, twice=story == "repeated points")


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


def _suggested(
    policy: Policy, seed: int, history: History, *, num: int, carry: Any, where: str
) -> tuple[list[Query], Any]:
    """Return the queries for a history; raise AssertionError unless they are the same with the carry and without it."""
    with_carry, after = policy.suggest(seed, history, num, carry)
    without, fresh = policy.suggest(seed, history, num)
    require(
        with_carry == without,
        f"{where}: with the carry {with_carry} were suggested, without it {without}; the carry is only a cache",
    )
    again, _ = policy.suggest(seed, history, num, fresh)
    require(
        again == without,
        f"{where}: the same seed and history gave {without} first and {again} then",
    )
    return with_carry, after


def _check_queries(queries: list[Query], history: History, num: int, where: str) -> None:
    space, ladder = history.problem.space, history.problem.ladder
    require(len(queries) <= num, f"{where}: {len(queries)} queries came where {num} were asked for")
    require(bool(queries or history.pending), f"{where}: no query came though nothing is in flight")
    for query in queries:
        require(len(query.unit) == space.dim, f"{where}: {query} has not {space.dim} coordinates")
        inside = all(0.0 <= coordinate <= 1.0 for coordinate in query.unit)
        require(inside, f"{where}: {query} lies outside the unit cube")
        snapped = tuple(float(u) for u in space.snap(np.asarray(query.unit, np.float64)))
        require(snapped == query.unit, f"{where}: {query} is not snapped: what is run is {snapped}")
        # A plain int: levels are recorded as JSON, which does not take numbers of NumPy.
        whole = isinstance(query.level, int) and 0 <= query.level <= ladder.top
        require(whole, f"{where}: {query} has no level from 0 to {ladder.top}")


def _answered(history: History, queries: list[Query], respond: Respond, twice: bool) -> History:
    """Return the history after the queries were run, the last first; `twice` runs each of them a second time."""
    numbers: list[int] = []
    for query in [*queries, *queries] if twice else queries:
        numbers.append(len(history.trials))
        history = history.asked(query)
    for number in reversed(numbers):
        query = history.trials[number].query
        value = respond(query, number)
        if value is not None:
            history = history.with_outcome(number, Outcome.of(value, history.priced.ladder.costs[query.level]))
    return history


def _smooth(query: Query, number: int) -> float:
    del number
    return sum(math.sin(5.0 * coordinate) for coordinate in query.unit) + 0.1 * query.level


def _constant(query: Query, number: int) -> float:
    del query, number
    return 3.0


def _failing(query: Query, number: int) -> float:
    del query, number
    return math.nan


def _noisy(query: Query, number: int) -> float:
    return _smooth(query, number) + 0.01 * number


def _mixed(query: Query, number: int) -> float | None:
    """Return a value for two of every four trials; one of the others fails, and one stays in flight."""
    return {1: math.inf, 2: None}.get(number % 4, _smooth(query, number))


_STORIES: dict[str, Respond] = {
    "smooth values": _smooth,
    "constant values": _constant,
    "nothing but failures": _failing,
    "repeated points": _noisy,
    "failures and trials in flight": _mixed,
}


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
