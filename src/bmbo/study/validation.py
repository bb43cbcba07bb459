"""Check what users give to make and run a study, and say in one sentence what is wrong."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

from bmbo import methods
from bmbo.methods.remembered import call_of
from bmbo.problem import Ladder, Problem
from bmbo.protocols import Demanding, Policy
from bmbo.study.checkpoints import KEEPS
from bmbo.study.limits import Limits


def check_method(method: object) -> None:
    """Raise TypeError if a method is neither a policy nor None."""
    if method is None or isinstance(method, Policy):
        return
    name = method if isinstance(method, str) else getattr(method, "__name__", "")
    known = f"; bmbo.methods.{name}() is one" if name in methods.__all__ else ""
    raise TypeError(f"method must be a policy such as bmbo.screening(), got {method!r}{known}")


def check_demands(method: Policy | None, problem: Problem) -> None:
    """Raise ValueError if a method knows nothing of what a problem demands beyond one value of one direction."""
    known = method.handles if isinstance(method, Demanding) else frozenset[str]()
    missing = sorted(problem.demands - known)
    if method is not None and missing:
        raise ValueError(
            f"{call_of(method) or type(method).__name__} knows nothing of {missing[0]}; bmbo.screening() does, and a "
            "method of your own says so by a property `handles`"
        )


def doubts_about(ladder: Ladder) -> str | None:
    """Return in words what is probably wrong with a ladder that can be used; None if nothing is."""
    if ladder.measured:
        return None
    costs = ladder.costs
    for lower, upper in pairwise(range(len(costs))):
        if costs[lower] > costs[upper]:
            return (
                f"costs fall: fidelity {ladder[lower].name!r} costs {costs[lower]:g}, and {ladder[upper].name!r} after "
                f"it costs {costs[upper]:g}; fidelities go from the roughest to the one that counts, which is "
                f"{ladder[ladder.top].name!r} here, and a level that is dearer than the top is of no use"
            )
    return None


def checked_catch(catch: object) -> tuple[type[BaseException], ...]:
    """Return the exceptions that a run catches; raise TypeError if these are none."""
    several: object = (catch,) if isinstance(catch, type) else catch
    if not isinstance(several, Iterable):
        raise TypeError(f"catch must be exceptions, such as catch=(ValueError,) or catch=Exception, got {catch!r}")
    caught = tuple(cast(Iterable[Any], several))
    for kind in caught:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(f"catch must be exceptions, got {''.join(map(str, caught))!r}")
    return caught


def check_callables(objective: object, callbacks: object) -> None:
    """Raise TypeError if a run could not call one of these."""
    if not callable(objective):
        raise TypeError(f"the objective must be a function of a trial, got {objective!r}")
    if not isinstance(callbacks, Sequence) or not all(callable(callback) for callback in callbacks):
        raise TypeError(f"callbacks must be a list of functions of a study and a trial, got {callbacks!r}")


def check_keep(keep: object, problem: Problem) -> None:
    """Raise ValueError if this is no rule for checkpoints, or one that removes what the study goes on from."""
    if keep not in KEEPS:
        raise ValueError(f"keep_checkpoints must be one of {list(KEEPS)}, got {keep!r}")
    if keep == "none" and problem.continues:
        raise ValueError(
            "keep_checkpoints='none' removes what a study with continues=True goes on from; use 'useful' or 'all'"
        )


def check_total(limits: Limits, ladder: Ladder) -> None:
    """Raise ValueError if a budget does not pay for one evaluation at the top."""
    if limits.total_cost is None or ladder.measured:
        return
    if limits.total_cost < ladder.costs[-1]:
        raise ValueError(
            f"total_cost {limits.total_cost:g} does not pay for one evaluation at the top, which costs "
            f"{ladder.costs[-1]:g}"
        )
