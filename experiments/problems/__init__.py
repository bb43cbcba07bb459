"""Every problem by its name; those that need data get them when they are prepared, not before."""

from collections.abc import Callable

from experiments.problems import formulas, lcbench
from experiments.problems.benchmark import Benchmark, DataMissingError

PROBLEMS: dict[str, Callable[[], Benchmark]] = {**formulas.PROBLEMS, **lcbench.PROBLEMS}

__all__ = ["PROBLEMS", "Benchmark", "DataMissingError"]
