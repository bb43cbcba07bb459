"""Check what users give to make and run a study, and say in one sentence what is wrong."""

from collections.abc import Sequence

from bmbo.problem import Ladder
from bmbo.protocols import Policy
from bmbo.study.limits import Limits


def check_method(method: object) -> None:
    """Raise TypeError if a method is neither a policy nor None."""
    if method is not None and not isinstance(method, Policy):
        raise TypeError(f"method must be a policy such as bmbo.screening(), got {method!r}")


def check_callables(objective: object, callbacks: object, caught: Sequence[object]) -> None:
    """Raise TypeError if a run could not call one of these, or if what it should catch is not an exception."""
    if not callable(objective):
        raise TypeError(f"the objective must be a function of a trial, got {objective!r}")
    if not isinstance(callbacks, Sequence) or not all(callable(callback) for callback in callbacks):
        raise TypeError(f"callbacks must be a list of functions of a study and a trial, got {callbacks!r}")
    for kind in caught:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"catch must be exceptions, got {''.join(map(str, caught))!r}")


def check_total(limits: Limits, ladder: Ladder) -> None:
    """Raise ValueError if a budget does not pay for one evaluation at the top."""
    if limits.total_cost is None or ladder.measured:
        return
    if limits.total_cost < ladder.costs[-1]:
        raise ValueError(
            f"total_cost {limits.total_cost:g} does not pay for one evaluation at the top, which costs "
            f"{ladder.costs[-1]:g}"
        )
