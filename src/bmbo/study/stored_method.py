"""Keep the method of a study in its record, so that a study that goes on has the method that it began with."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bmbo import methods
from bmbo.history import History, Query
from bmbo.ledger import Ledger
from bmbo.methods.remembered import call_of
from bmbo.problem.number_checks import short
from bmbo.protocols import Policy

logger = logging.getLogger("bmbo")


@dataclass(frozen=True)
class MissingMethod:
    """Stand for the method of a record that needs an extra which is not installed: the study can only be read.

    Attributes:
        why: what is missing, and what brings it.
    """

    why: str

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """Raise ImportError."""
        del seed, history, num, carry
        raise ImportError(self.why)


def require_method(policy: Policy) -> None:
    """Raise ImportError if a method cannot suggest anything because an extra is not installed."""
    if isinstance(policy, MissingMethod):
        raise ImportError(policy.why)


def method_for(ledger: Ledger, given: Policy | None) -> Policy:
    """Return the method that a study is run with: the given one, else that of the record, else `screening()`.

    A warning says if it is another one than that of the record. If an extra is missing, it is a `MissingMethod`.

    Raises:
        ValueError: Something else than bmbo changed the method of the record.
    """
    stored = ledger.method
    if stored is None:
        policy = methods.screening() if given is None else given
        if not ledger.read().entries:
            note_method(ledger, policy)
        return policy
    _check(stored)
    if given is not None:
        if described(given) != stored:
            logger.warning(
                "study %r has the method %s; %s is used now", ledger.name, stored["shown"], described(given)["shown"]
            )
        return given
    made = _made_again(stored)
    if made is None:
        logger.warning(
            "study %r has the method %s, which the record cannot make again: give it as method=...; screening() is "
            "used now",
            ledger.name,
            stored["shown"],
        )
        return methods.screening()
    return made


def note_method(ledger: Ledger, policy: Policy) -> None:
    """Write into the record which method a study is run with."""
    ledger.note_method(described(policy))


def described(policy: Policy) -> dict[str, Any]:
    """Return a method in the types of JSON; without a name if only its maker can make it again."""
    call = call_of(policy)
    if call is None:
        return {"shown": f"{type(policy).__name__} of your own", "name": None, "settings": {}}
    settings = dict(call.settings)
    try:
        is_plain = json.loads(json.dumps(settings)) == settings
    except (TypeError, ValueError):
        is_plain = False
    return {
        "shown": str(call),
        "name": call.name if is_plain else None,
        "settings": settings if is_plain else {},
    }


def _check(stored: Mapping[str, Any]) -> None:
    """Raise ValueError if no version of bmbo has written this description of a method."""
    kinds = {"shown": str, "name": str | None, "settings": Mapping}
    if not all(name in stored and isinstance(stored[name], kind) for name, kind in kinds.items()):
        raise ValueError(f"the method of the study was changed by something else than bmbo: {short(stored)}")


def _made_again(stored: Mapping[str, Any]) -> Policy | None:
    """Return the method of a record, or None if this version of bmbo cannot make it."""
    if stored["name"] not in methods.__all__:
        return None
    try:
        make: Callable[..., Policy] = getattr(methods, stored["name"])
    except ImportError as error:
        return MissingMethod(f"the study has the method {stored['shown']}: {error}")
    try:
        return make(**stored["settings"])
    except (TypeError, ValueError):
        return None
