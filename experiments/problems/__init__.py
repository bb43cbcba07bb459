"""Every problem by its name; those that need data get them when they are prepared, not before."""

from collections.abc import Callable
from functools import partial

from experiments.problems import formulas, lcbench
from experiments.problems.benchmark import Benchmark, DataMissingError

APPLICATIONS = ("cnn", "lda", "boosting", "pinn")
"""The paper's, in its order."""

STAND_INS = ("cnn", "lda", "pinn")
"""Applications too dear for a whole comparison: stand-ins are made from tables of them."""


# Imported when they are asked for: what they need is large, and may not be installed.
def _application(name: str) -> Benchmark:
    from experiments.applications import evaluation  # noqa: PLC0415

    return evaluation.benchmark(evaluation.get(name))


def _stand_in(name: str) -> Benchmark:
    from experiments.applications import standin  # noqa: PLC0415

    return standin.benchmark(name)


PROBLEMS: dict[str, Callable[[], Benchmark]] = {
    **formulas.PROBLEMS,
    **lcbench.PROBLEMS,
    **{name: partial(_application, name) for name in APPLICATIONS},
    **{f"{name}_standin": partial(_stand_in, name) for name in STAND_INS},
}

__all__ = ["APPLICATIONS", "PROBLEMS", "STAND_INS", "Benchmark", "DataMissingError"]
