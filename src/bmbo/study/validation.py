"""What users may get wrong where they make and run a study, each in one sentence."""

from collections.abc import Sequence

from bmbo.problem import Ladder
from bmbo.protocols import Policy
from bmbo.study.planning import Limits


def check_method(method: object) -> None:
    """A policy, or none."""
    if method is not None and not isinstance(method, Policy):
        raise TypeError(f"method must be a policy such as bmbo.bmbo_gp(), got {method!r}")


def whole(needs: str, number: object) -> int:
    """A whole number of at least 1."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{needs} a whole number of at least 1, got {number!r}")
    return number


def check_callables(objective: object, callbacks: object, caught: Sequence[object]) -> None:
    """What a run will call, and the exceptions that it lets pass."""
    if not callable(objective):
        raise TypeError(f"the objective must be a function of a trial, got {objective!r}")
    if not isinstance(callbacks, Sequence) or not all(callable(callback) for callback in callbacks):
        raise TypeError(f"callbacks must be a list of functions of a study and a trial, got {callbacks!r}")
    for kind in caught:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"catch must be exceptions, got {''.join(map(str, caught))!r}")


def check_total(limits: Limits, ladder: Ladder) -> None:
    """A budget that pays for something that counts."""
    if limits.total_cost is None or ladder.measured:
        return
    if limits.total_cost < ladder.costs[-1]:
        raise ValueError(
            f"total_cost {limits.total_cost:g} does not pay for one evaluation at the top, which costs "
            f"{ladder.costs[-1]:g}"
        )
