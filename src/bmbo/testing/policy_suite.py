"""Check what every policy must do."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bmbo.history import History, Outcome, Query
from bmbo.problem import Problem
from bmbo.protocols import Policy
from bmbo.testing.require import require

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
            history = history.with_outcome(
                number, Outcome.of_several(_values(history, query, value), history.priced.ladder.costs[query.level])
            )
    return history


def _values(history: History, query: Query, value: float) -> list[float]:
    """Return a value for each objective; those after the first change with the point in other ways."""
    further = range(1, history.problem.num_objectives)
    return [value, *(value * math.cos(place + 3.0 * sum(query.unit)) for place in further)]


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
