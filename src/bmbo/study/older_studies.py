"""Take the best configurations of an older study of a similar problem, as first trials of a new one.

Values are not taken over: the problems may differ. What was good before is tried at the lowest level, beside points
that fill the space, and what comes of it alone decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import optuna

from bmbo.history import History, Query, TrialRecord
from bmbo.history.host_observations import Floats
from bmbo.history.pareto_front import orders
from bmbo.history.same_point import same_configuration
from bmbo.problem import Categorical, Parameter, Problem, Space
from bmbo.problem.number_checks import is_real, short
from bmbo.protocols import Policy, Starting

LEARNED_FROM = "learned_from"
"""The note on queries that an older study proposed."""

USUAL = 4
"""Configurations that are taken where the method does not say how it begins."""

GOOD = 3
"""The configurations are chosen among so many times as many of the best ones, so that they differ; but among the better
half, if there are not more."""


def usual_number(policy: Policy, problem: Problem) -> int:
    """Return how many configurations are taken: half of the start's points at the lowest level."""
    sizes = policy.start_sizes(problem) if isinstance(policy, Starting) else ()
    return max(1, sizes[0] // 2) if sizes else USUAL


def best_configurations(history: History) -> list[dict[str, Any]]:
    """Return the configurations of a history with a value, those of the highest level first, and the best of each."""
    problem = history.problem
    values = np.array([history.larger_better(trial) for trial in history.done]).reshape(-1, problem.num_objectives)
    ordered: list[TrialRecord] = []
    for level in range(problem.ladder.top, -1, -1):
        here = [place for place, trial in enumerate(history.done) if trial.query.level == level]
        ordered += [history.done[here[place]] for place in orders(values[here])]
    return [problem.space.decode(unit) for unit in dict.fromkeys(trial.query.unit for trial in ordered)]


def configurations_in(source: object) -> list[dict[str, Any]]:
    """Return the configurations of an Optuna study or of a list, the best first; raise TypeError for anything else."""
    if isinstance(source, optuna.Study):
        signs = [1.0 if each == optuna.study.StudyDirection.MAXIMIZE else -1.0 for each in source.directions]
        ended = source.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        values = np.array([trial.values for trial in ended], np.float64).reshape(-1, len(signs))
        return [dict(ended[place].params) for place in orders(signs * values)]
    listed = [] if isinstance(source, str | Mapping) or not isinstance(source, Iterable) else list(source)
    if not listed or not all(isinstance(each, Mapping) for each in cast(list[object], listed)):
        raise TypeError(
            "learn_from takes a bmbo study, an Optuna study, or a list of configurations with the best first, got "
            f"{short(source)}"
        )
    return [dict(each) for each in cast(list[Mapping[str, Any]], listed)]


def proposed(
    space: Space, configs: Sequence[Mapping[str, Any]], num: int, seed: int, taken: Iterable[Sequence[float]]
) -> list[tuple[float, ...]]:
    """Return at most `num` points for the best configurations of another study: the best, then good ones that differ.

    Parameters are matched by their names. A number out of range becomes the nearest one that is allowed. What the other
    study does not say is drawn at random, or from the prior if there is one.

    Raises:
        ValueError: There are configurations, but none has a parameter of this space.
    """
    if configs and not any(name in config for config in configs for name in space.names):
        theirs = sorted({name for config in configs for name in config})
        raise ValueError(
            f"the other study has no parameter of this one: it has {theirs}, and this one has {list(space.names)}"
        )
    rng, num_good = np.random.default_rng([seed, 2]), min(GOOD * num, max(num, (len(configs) + 1) // 2))
    free = rng.random((num_good, space.dim)) if space.likely is None else space.likely.drawn(rng, num_good)
    points: list[tuple[float, ...]] = []
    known = list(taken)
    for config, unit in zip(configs, free, strict=False):
        point = space.encode(space.decode(_with_values(space, config, unit)))
        if not any(same_configuration(point, other) for other in (*known, *points)):
            points.append(point)
    return _differing(points, num)


def queries_of(points: Sequence[tuple[float, ...]], name: str) -> list[Query]:
    """Return what is queued for points that the study of a name has proposed: looks at the lowest level."""
    return [Query(point, 0, {LEARNED_FROM: name}) for point in points]


def _with_values(space: Space, config: Mapping[str, Any], unit: Floats) -> tuple[float, ...]:
    """Return a point with the coordinates of the values that a configuration has and the space can take."""
    point = unit.copy()
    for (name, param), block in zip(space.params, space.blocks, strict=True):
        if name in config:
            found = _coordinates(param, config[name])
            if found is not None:
                point[block] = found
    return tuple(float(u) for u in point)


def _coordinates(param: Parameter, value: object) -> tuple[float, ...] | None:
    """Return the coordinates of a value, or of the nearest number that is allowed; None if there is none."""
    try:
        return param.encode(value)
    except (TypeError, ValueError):
        if isinstance(param, Categorical) or not is_real(value) or not np.isfinite(value):
            return None
    number = min(max(float(value), float(param.low)), float(param.high))
    if param.step is None:
        return param.encode(number)
    most = int((param.high - param.low) / param.step + 1e-6)
    nearest = param.low + param.step * min(round((number - param.low) / param.step), most)
    return param.encode(nearest)


def _differing(points: Sequence[tuple[float, ...]], num: int) -> list[tuple[float, ...]]:
    """Return the first point, and then one after the other the point that is furthest from those that were chosen."""
    chosen: list[int] = [0] if points else []
    units = np.asarray(points, np.float64)
    while 0 < len(chosen) < min(num, len(points)):
        apart = ((units[:, None] - units[chosen][None]) ** 2).sum(-1).min(1)
        apart[chosen] = -1.0
        chosen.append(int(apart.argmax()))
    return [points[place] for place in chosen]
