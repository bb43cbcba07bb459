"""Our methods with one ingredient changed, to measure what each ingredient is worth."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

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


def _failures_as_worst_values() -> Screening:
    return replace(methods.screening(), learns_failures=False)


def _darn_by_information() -> Any:
    """Return `bmbo_darn` with its earlier rule."""
    # The imports are here, because other methods do without JAX.
    from bmbo.acquisition.alternating_search import Alternating  # noqa: PLC0415
    from bmbo.acquisition.expected_improvement import ImproveAtTop  # noqa: PLC0415

    method: Any = methods.bmbo_darn()
    return replace(method, policy=replace(method.policy, select=ImproveAtTop(Alternating())))


def _entry(
    name: str, make_policy: Callable[[], Any], differs: str, where: str = "screening", packages: tuple[str, ...] = ()
) -> MethodEntry:
    return MethodEntry(
        name=name,
        factory=partial(start_run, make_policy=make_policy),
        takes_starts=True,
        batch=True,
        paper="",
        where=f"bmbo.methods.{where}",
        differs=differs,
        packages=("bmbo", *packages),
    )


ENTRIES = (
    _entry("screening_no_looks", _without_looks, "after the start, only the top is asked"),
    _entry("screening_alike", _alike_levels, "a level is believed to resemble those below it"),
    _entry("screening_matern", _matern, "the Matern kernel alone"),
    _entry("screening_worst_failures", _failures_as_worst_values, "a failure has the worst value of its level"),
    _entry(
        "bmbo_darn_information",
        _darn_by_information,
        "levels by information, the expected improvement at the top",
        where="bmbo_darn",
        packages=("jax",),
    ),
)
