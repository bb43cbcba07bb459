"""Define the suites: their problems, the cost of a run, and the half of the development suite that is for tuning.

A method is tuned on one half of the development suite and reported on the other. The halves are fixed by names alone,
so that nobody can choose them by looking at results. The other suites belong to neither half: methods are not tuned on
them, and their results are not averaged with those of the halves.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from experiments.problems import FAMILIES
from experiments.problems.benchmark import Benchmark

DEVELOPMENT, ROBUST, JUDGEMENT = "development", "robust", "judgement"


@dataclass(frozen=True)
class Suite:
    """Hold what a suite runs.

    Attributes:
        families: of its problems.
        top_evaluations: the cost of a run in evaluations at the top. A method begins with nothing, and its own start
            counts.
        has_halves: whether half of it is for tuning.
    """

    families: tuple[str, ...]
    top_evaluations: int
    has_halves: bool = False


SUITE_FAMILIES = ("functions", "lcbench", "scikit_learn", "stand_ins")
"""The families of the development suite. The applications train for minutes, and their stand-ins are in."""

ROBUST_FAMILIES = tuple(f"robust_{kind}" for kind in ("noise", "tails", "failures", "dimensions", "spaces", "ties"))
"""Problems that make trouble of one kind each."""

SUITES: Mapping[str, Suite] = {
    DEVELOPMENT: Suite(SUITE_FAMILIES, 40, has_halves=True),
    JUDGEMENT: Suite(("judgement",), 30),
    ROBUST: Suite(ROBUST_FAMILIES, 20),
}

NUM_SEEDS = 10
BATCH_SIZE = 1
"""How a suite is run if nothing else is said. Runs with other batch sizes are kept apart."""

TUNING, REPORT = "tuning", "report"

HALVES = (TUNING, REPORT)


def total_cost(benchmark: Benchmark, chosen: str = DEVELOPMENT) -> float:
    """Return the cost of a run on a problem of a suite."""
    return SUITES[chosen].top_evaluations * benchmark.problem.ladder.costs[-1]


def family_of(name: str) -> str:
    """Return the family of a problem, or "other" for a problem of a plugin."""
    return next((family for family, problems in FAMILIES.items() if name in problems), "other")


def half_of(names: Iterable[str], half: str) -> list[str]:
    """Return one half of the problems of a family: in the order of the checksums of their names, every other one."""
    ordered = sorted(names, key=lambda name: (zlib.crc32(name.encode()), name))
    return ordered[HALVES.index(half) :: 2]


def names_of(half: str | None = None, chosen: str = DEVELOPMENT) -> list[str]:
    """Return the names of a suite or of one half of it, family by family."""
    if half is not None and not SUITES[chosen].has_halves:
        raise ValueError(f"the suite {chosen} has no halves; leave out --half {half}")
    families = [sorted(FAMILIES[family]) for family in SUITES[chosen].families]
    return [name for names in families for name in (names if half is None else sorted(half_of(names, half)))]
