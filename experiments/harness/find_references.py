"""Find the reference values of problems: random configurations at the top, and a local search from the best of them."""

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness import registry
from experiments.problems import Benchmark
from experiments.problems.reference_values import Reference, is_usable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effort:
    """Say how long to search.

    Attributes:
        num_random: random configurations; their median is the upper reference value.
        num_more: more random configurations, among which the search begins.
        num_climbers: how many of the best configurations the search climbs from.
        num_rounds: how many steps every climber tries.
    """

    num_random: int
    num_more: int
    num_climbers: int
    num_rounds: int


QUICK, LIVE = Effort(400, 0, 0, 0), Effort(100, 100, 4, 40)
"""The effort where the optimum is known, and where an evaluation trains a model."""

IN_BATCHES = Effort(400, 40_000, 128, 800)
"""The effort where thousands of evaluations at once take a moment."""

FIRST_STEP, LAST_STEP = 0.3, 0.003
"""Standard deviations of the steps at the first and at the last round, in the cube. They shrink geometrically."""

SHARE_MOVED = 0.4
"""The share of the parameters that a step changes, at least one."""


def effort_for(benchmark: Benchmark) -> Effort:
    """Return the effort that a problem is worth."""
    if benchmark.many_at_top is not None:
        return IN_BATCHES
    return LIVE if benchmark.optimum is None else QUICK


def find(benchmark: Benchmark, effort: Effort) -> Reference:
    """Return the reference values of a problem. Raise `ValueError` if they do not make a scale."""
    benchmark.prepare()
    generator = np.random.default_rng([zlib.crc32(benchmark.name.encode()), 1])
    space, sign = benchmark.problem.space, benchmark.problem.sign
    random = _values(benchmark, units := space.snap(generator.random((effort.num_random, space.dim))))
    median = sign * float(np.median(random))
    known = benchmark.many_at_top is None and benchmark.optimum is not None
    if known and benchmark.optimum is not None:
        found = Reference(benchmark.optimum, median, effort.num_random, 0)
    else:
        more = space.snap(generator.random((effort.num_more, space.dim)))
        units, values = np.concatenate([units, more]), np.concatenate([random, _values(benchmark, more)])
        best = _climbed(benchmark, units, values, effort, generator)
        searched = effort.num_more + effort.num_climbers * effort.num_rounds
        found = Reference(sign * best, median, effort.num_random, searched)
    if not is_usable(found):
        raise ValueError(f"{benchmark.name} has the reference values {found.best:g} and {found.median:g}: no scale")
    return found


def _values(benchmark: Benchmark, units: Floats) -> Floats:
    """Return values at the top without noise, larger is better; a failure has minus infinity."""
    if not len(units):
        return np.zeros(0)
    configs: Sequence[Mapping[str, Any]] = [benchmark.problem.space.decode(tuple(map(float, unit))) for unit in units]
    if benchmark.many_at_top is not None:
        found = benchmark.many_at_top(configs)
    else:
        found = [benchmark.exact_top(config) for config in configs]
    values = benchmark.problem.sign * np.asarray(found, np.float64)
    return np.where(np.isfinite(values), values, -math.inf)


def _climbed(
    benchmark: Benchmark, units: Floats, values: Floats, effort: Effort, generator: np.random.Generator
) -> float:
    """Return the best value that climbers reach from the best configurations. All climbers step at once."""
    chosen = np.argsort(-values, kind="stable")[: effort.num_climbers]
    points, heights = units[chosen], values[chosen]
    steps = np.geomspace(FIRST_STEP, LAST_STEP, effort.num_rounds)
    for step in steps:
        tried = _stepped(benchmark, points, float(step), generator)
        reached = _values(benchmark, tried)
        better = reached > heights
        points, heights = np.where(better[:, None], tried, points), np.where(better, reached, heights)
    return float(heights.max())


def _stepped(benchmark: Benchmark, points: Floats, step: float, generator: np.random.Generator) -> Floats:
    """Return points in which some parameters have changed: coordinates by a normal step, categories at random."""
    space = benchmark.problem.space
    moved = generator.random((len(points), len(space.blocks))) < SHARE_MOVED
    moved[np.arange(len(points)), generator.integers(len(space.blocks), size=len(points))] = True
    found = points.copy()
    for place, block in enumerate(space.blocks):
        size = (len(points), block.stop - block.start)
        # A category has a coordinate for each choice; the largest one counts.
        fresh = (
            generator.random(size)
            if size[1] > 1
            else np.clip(points[:, block] + step * generator.normal(size=size), 0.0, 1.0)
        )
        found[:, block] = np.where(moved[:, [place]], fresh, points[:, block])
    return space.snap(found)


def _find_by_name(name: str, plugins: Sequence[str], effort: Effort | None) -> Reference:
    benchmark = registry.problems(plugins)[name]()
    return find(benchmark, effort or effort_for(benchmark))


def find_all(
    names: Sequence[str], *, jobs: int = 1, plugins: Sequence[str] = (), effort: Effort | None = None
) -> Iterator[tuple[str, Reference]]:
    """Yield the names and the reference values of some problems as they are found, by several processes."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_find_by_name, name, plugins, effort): name for name in names}
        for done in as_completed(running):
            yield running[done], done.result()
