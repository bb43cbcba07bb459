"""Say where the levels of a ladder lie, and which few of many levels stand for them."""

import math
from collections.abc import Sequence
from itertools import pairwise

from bmbo.problem.fidelities import Ladder
from bmbo.problem.number_checks import Number, is_real

MOST_ONE_BY_ONE = 6
"""Levels up to which each has a model of its own and is asked one by one; docs/design.md has the measurement."""
FEWEST_BELOW, MOST_BELOW = 3, 6
"""Levels below the top that stand for many."""


def has_many(num_levels: int) -> bool:
    """Return whether a ladder has too many levels to treat them one by one."""
    return num_levels > MOST_ONE_BY_ONE


def places_of(ladder: Ladder) -> tuple[float, ...]:
    """Return where each level lies between the roughest, 0, and the top, 1.

    Positive numbers that rise lie by their logarithms, because errors fall with factors of epochs, points or meshes.
    The levels of other ladders lie at equal distances.
    """
    values = [fidelity.value for fidelity in ladder.fidelities]
    top = ladder.top
    if top == 0:
        return (1.0,)
    sizes = [float(value) for value in values if is_real(value) and value > 0]
    if len(sizes) == len(values) and all(low < high for low, high in pairwise(sizes)):
        logs = [math.log(size) for size in sizes]
        if all(low < high for low, high in pairwise(logs)):
            return (*((each - logs[0]) / (logs[-1] - logs[0]) for each in logs[:-1]), 1.0)
    return tuple(level / top for level in range(top + 1))


def spread_levels(ladder: Ladder, factor: Number = 2, fewest: int = FEWEST_BELOW) -> tuple[int, ...]:
    """Return levels that stand for all: the first, the top, and some between.

    From one to the next, costs grow by about `factor`, or by more where that would be too many levels. Measured costs
    change while a study runs, so that the places of the levels count there instead.

    Args:
        ladder: of many levels.
        factor: between costs.
        fewest: levels below the top.
    """
    costs = () if ladder.measured else ladder.costs
    if costs and all(low < high for low, high in pairwise(costs)):
        marks: Sequence[float] = [math.log(cost) for cost in costs]
        num = round((marks[-1] - marks[0]) / math.log(factor))
    else:
        marks, num = places_of(ladder), MOST_BELOW
    num = min(max(num, fewest), MOST_BELOW, ladder.top)
    wanted = [marks[0] + (marks[-1] - marks[0]) * place / num for place in range(num)]
    nearest = {min(range(ladder.top), key=lambda level: abs(marks[level] - mark)) for mark in wanted}
    return (*sorted(nearest), ladder.top)


def ladder_text(ladder: Ladder) -> str:
    """Return the levels with their costs in one line; of many, the first and the last."""
    each = [
        f"{fidelity.name} (cost {fidelity.cost if isinstance(fidelity.cost, str) else format(fidelity.cost, '.4g')})"
        for fidelity in ladder.fidelities
    ]
    if not has_many(ladder.num_levels):
        return ", ".join(each)
    return f"{each[0]} to {each[-1]}, {ladder.num_levels} levels"
