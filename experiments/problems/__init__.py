"""Collect every problem by its name. A problem loads its data when it is prepared, not before."""

from collections.abc import Callable
from functools import partial

from experiments.problems import (
    function_variants,
    judged_levels,
    lcbench,
    live_training,
    mixed_spaces,
    synthetic_functions,
    troubled_functions,
)
from experiments.problems.benchmark import Benchmark, DataMissingError

APPLICATIONS = ("cnn", "lda", "boosting", "pinn")
"""The applications of the paper, in its order."""

STAND_INS = ("cnn", "lda", "pinn")
"""Applications that are too expensive for a whole comparison. Stand-ins are made from tables of them."""


# The imports are inside the functions, because these packages are large and may be missing.
def _application(name: str) -> Benchmark:
    from experiments.applications import cached_evaluation  # noqa: PLC0415

    return cached_evaluation.benchmark(cached_evaluation.get_application(name))


def _stand_in(name: str) -> Benchmark:
    from experiments.applications import stand_in  # noqa: PLC0415

    return stand_in.benchmark(name)


FAMILIES: dict[str, dict[str, Callable[[], Benchmark]]] = {
    "functions": {**synthetic_functions.PROBLEMS, **function_variants.PROBLEMS},
    "lcbench": lcbench.PROBLEMS,
    "scikit_learn": live_training.PROBLEMS,
    "stand_ins": {f"{name}_standin": partial(_stand_in, name) for name in STAND_INS},
    "applications": {name: partial(_application, name) for name in APPLICATIONS},
    "judgement": judged_levels.PROBLEMS,
    **troubled_functions.FAMILIES,
    "robust_spaces": mixed_spaces.PROBLEMS,
}
"""The problems by what they are made of."""

PROBLEMS: dict[str, Callable[[], Benchmark]] = {
    name: make for family in FAMILIES.values() for name, make in family.items()
}

__all__ = ["APPLICATIONS", "FAMILIES", "PROBLEMS", "STAND_INS", "Benchmark", "DataMissingError"]
