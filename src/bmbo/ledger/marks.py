"""Mark trials that have ended: dropped, given back, their checkpoint gone. Marks are attributes of the study."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bmbo.ledger.attribute_keys import DROPPED, LOST, REFUNDED
from bmbo.ledger.ledger_entries import LedgerEntry


@dataclass(frozen=True)
class Marks:
    """Hold the numbers of trials that were dropped, whose cost was given back, and whose checkpoint is gone."""

    dropped: frozenset[int] = frozenset()
    refunded: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> "Marks":
        """Return the marks among the attributes of a study."""
        found: dict[str, set[int]] = {DROPPED: set(), REFUNDED: set(), LOST: set()}
        for key in attributes:
            name, _, number = key.rpartition(":")
            if name in found:
                if not number.isdecimal():
                    raise ValueError(f"the study was changed by something else than bmbo: it has an attribute {key!r}")
                found[name].add(int(number))
        return cls(frozenset(found[DROPPED]), frozenset(found[REFUNDED]), frozenset(found[LOST]))

    def beyond(self, other: "Marks") -> frozenset[int]:
        """Return the numbers of the trials whose marks differ from others."""
        return (self.dropped ^ other.dropped) | (self.refunded ^ other.refunded) | (self.lost ^ other.lost)

    def put_on(self, entry: LedgerEntry) -> LedgerEntry:
        """Return an entry with its marks; an entry that has not finished has none."""
        trial = entry.trial
        dropped, refunded, lost = (trial.number in marks for marks in (self.dropped, self.refunded, self.lost))
        if trial.outcome is None or not (dropped or refunded or lost):
            return entry
        outcome = replace(trial.outcome, checkpoint=False) if lost else trial.outcome
        marked = replace(trial, outcome=outcome, dropped=dropped, refunded=refunded)
        return replace(entry, trial=marked, state="dropped" if dropped else entry.state)


def mark_key(name: str, number: int) -> str:
    """Return the key of the attribute that marks a trial; `name` is `DROPPED`, `REFUNDED` or `LOST`."""
    return f"{name}:{number}"
