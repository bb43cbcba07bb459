"""The default method with one ingredient changed, to measure what each ingredient is worth."""

from collections.abc import Callable
from functools import partial

from bmbo import methods
from bmbo.policies import Screening
from bmbo.surrogates.exact_gp import JointGP
from bmbo.surrogates.exact_gp.prior_and_evidence import Prior
from experiments.harness.method_interface import MethodEntry
from experiments.methods.own_methods import start_run


def _without_looks() -> Screening:
    return methods.screening(looks=False)


def _alike_levels() -> Screening:
    return Screening(JointGP(prior=Prior(unlike=0.0)))


def _matern() -> Screening:
    return Screening(JointGP(kernels=("matern",)))


def _entry(name: str, make_policy: Callable[[], Screening], differs: str) -> MethodEntry:
    return MethodEntry(
        name=name,
        factory=partial(start_run, make_policy=make_policy),
        takes_starts=True,
        batch=True,
        paper="",
        where="bmbo.methods.screening",
        differs=differs,
        packages=("bmbo",),
    )


ENTRIES = (
    _entry("screening_no_looks", _without_looks, "after the start, only the top is asked"),
    _entry("screening_alike", _alike_levels, "a level is believed to resemble those below it"),
    _entry("screening_matern", _matern, "the Matern kernel alone"),
)
