"""Define the development suite: its problems, the cost of a run, and the half that may be used for tuning.

A method is tuned on one half of the problems and reported on the other. The halves are fixed by names alone, so that
nobody can choose them by looking at results.
"""

import zlib
from collections.abc import Iterable

from experiments.problems import FAMILIES
from experiments.problems.benchmark import Benchmark

DEVELOPMENT = "development"

SUITES = (DEVELOPMENT,)

SUITE_FAMILIES = ("functions", "lcbench", "scikit_learn", "stand_ins")
"""The applications are left out: they train for minutes, and their stand-ins are in."""

TOP_EVALUATIONS = 40
"""The cost of a run in evaluations at the top. A method begins with nothing, and its own start counts."""

NUM_SEEDS = 10
BATCH_SIZE = 1
"""How a suite is run if nothing else is said. Runs with other batch sizes are kept apart."""

TUNING, REPORT = "tuning", "report"

HALVES = (TUNING, REPORT)


def total_cost(benchmark: Benchmark) -> float:
    """Return the cost of a run on a problem."""
    return TOP_EVALUATIONS * benchmark.problem.ladder.costs[-1]


def family_of(name: str) -> str:
    """Return the family of a problem, or "other" for a problem of a plugin."""
    return next((family for family, problems in FAMILIES.items() if name in problems), "other")


def half_of(names: Iterable[str], half: str) -> list[str]:
    """Return one half of the problems of a family: in the order of the checksums of their names, every other one."""
    ordered = sorted(names, key=lambda name: (zlib.crc32(name.encode()), name))
    return ordered[HALVES.index(half) :: 2]


def names_of(half: str | None = None) -> list[str]:
    """Return the names of the suite or of one half of it, family by family."""
    families = [sorted(FAMILIES[family]) for family in SUITE_FAMILIES]
    return [name for names in families for name in (names if half is None else sorted(half_of(names, half)))]
