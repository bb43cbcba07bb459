"""Remember by which call a method was made, so that a study can be run again with the same method."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
MadeT = TypeVar("MadeT")

_MADE_BY = "_made_by"


@dataclass(frozen=True)
class MethodCall:
    """Hold the name of a method's function and the arguments that differ from its defaults."""

    name: str
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


def remembered(make: Callable[Arguments, MadeT]) -> Callable[Arguments, MadeT]:
    """Return the function of a method, made to note its call on the policy that it returns."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def making(*args: Arguments.args, **kwargs: Arguments.kwargs) -> MadeT:
        policy = make(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        settings = {name: value for name, value in given.items() if value != signature.parameters[name].default}
        # Past the frozen fields on purpose: a policy that `replace` changes loses the note, for it is another one.
        object.__setattr__(policy, _MADE_BY, MethodCall(make.__name__, settings))
        return policy

    return making


def call_of(policy: object) -> MethodCall | None:
    """Return the call that made a policy; None for a policy of a user's own."""
    found = getattr(policy, _MADE_BY, None)
    return found if isinstance(found, MethodCall) else None
