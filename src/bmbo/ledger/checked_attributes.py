"""Read the attributes of a stored trial; what bmbo cannot have written is an error that names it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bmbo.problem.number_checks import LARGEST_COUNT, is_real, is_whole, short


@dataclass(frozen=True)
class CheckedAttributes:
    """Read the attributes of one trial.

    Args:
        number: of the trial.
        stored: its attributes, as the storage has them.

    Raises:
        ValueError: An attribute has a value that bmbo never writes.
    """

    number: int
    stored: Mapping[str, Any]

    def whole(self, key: str, default: int, at_most: int = LARGEST_COUNT) -> int:
        """Return a whole number of at least 0, or the default if there is none."""
        found = self.number_or_none(key, at_most)
        return default if found is None else found

    def number_or_none(self, key: str, at_most: int = LARGEST_COUNT) -> int | None:
        """Return a whole number of at least 0, or None if there is none."""
        found = self.stored.get(key)
        if found is not None and not (is_whole(found) and 0 <= found <= at_most):
            self.refuse(key, f"a whole number from 0 to {at_most}")
        return found

    def amount(self, key: str, default: float) -> float:
        """Return a finite number of at least 0, or the default if there is none."""
        found = self.stored.get(key, default)
        if not is_real(found) or not 0 <= found <= sys.float_info.max:
            self.refuse(key, "a finite number of at least 0")
        return float(found)

    def text(self, key: str) -> str | None:
        """Return a text, or None if there is none."""
        found = self.stored.get(key)
        if found is not None and not isinstance(found, str):
            self.refuse(key, "a text")
        return found

    def flag(self, key: str) -> bool:
        """Return a boolean, False if there is none."""
        found = self.stored.get(key, False)
        if not isinstance(found, bool):
            self.refuse(key, "true or false")
        return found

    def table(self, key: str) -> dict[str, Any]:
        """Return a table, empty if there is none."""
        found = self.stored.get(key, {})
        if not isinstance(found, Mapping):
            self.refuse(key, "a table")
        return dict(found)

    def refuse(self, key: str, expected: str) -> NoReturn:
        """Raise the error about an attribute."""
        raise ValueError(
            f"trial {self.number} in the storage was changed by something else than bmbo: its attribute {key!r} is "
            f"{short(self.stored.get(key))} and not {expected}"
        )
