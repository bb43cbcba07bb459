"""Keep the record of a study as it was last read, and bring it up to date with what has changed."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bmbo.history import History
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.attribute_keys import RESUME_FROM
from bmbo.ledger.checked_attributes import CheckedAttributes
from bmbo.ledger.ledger_entries import LedgerEntry, LedgerSnapshot, StoredTrial
from bmbo.ledger.marks import Marks
from bmbo.ledger.trial_store import TrialStore
from bmbo.problem import Problem


class KeptRecord:
    """Keep the entries of a study; each trial is converted once for each time that it changes.

    Args:
        problem: of the study.
        store: returns a store of the trials of the study that has said nothing yet.
    """

    def __init__(self, problem: Problem, store: Callable[[], TrialStore]) -> None:
        self._problem = problem
        self._store = store
        self._lock = threading.Lock()
        self._forget()

    def read(self) -> LedgerSnapshot:
        """Return everything that the storage holds now; the same object as before if nothing has changed."""
        with self._lock:
            try:
                return self._read()
            except BaseException:
                # Also after an interrupt: what the store has said once, it does not say again.
                self._forget()
                raise

    def _read(self) -> LedgerSnapshot:
        changes = self._trials.changes()
        if changes.attributes is not self._attributes:
            before, self._attributes = self._marks, changes.attributes
            self._marks = Marks.of(changes.attributes)
            for number in self._marks.beyond(before) & self._entries.keys():
                self._entries[number] = self._marks.put_on(self._entries[number])
                self._snapshot = None
        for stored in changes.trials:
            self._entries[stored.number] = self._marks.put_on(mapping.entry_from_trial(self._problem, stored))
        if self._problem.continues:
            self._check_sources(changes.trials)
        if self._snapshot is None or changes.trials:
            entries = tuple(self._entries.values())
            self._snapshot = LedgerSnapshot(History(self._problem, tuple(each.trial for each in entries)), entries)
        return self._snapshot

    def _check_sources(self, changed: Sequence[StoredTrial]) -> None:
        """Raise ValueError if a trial went on from one that is not there, or not lower: its cost makes no sense."""
        for stored in changed:
            entry = self._entries[stored.number]
            source = None if entry.resume_from is None else self._entries.get(entry.resume_from)
            is_lower = source is not None and source.trial.query.level < entry.trial.query.level
            if entry.resume_from is not None and not is_lower:
                CheckedAttributes(stored.number, stored.attributes).refuse(RESUME_FROM, "a trial at a lower level")

    def _forget(self) -> None:
        """Let the next reading begin anew."""
        self._trials = self._store()
        self._entries: dict[int, LedgerEntry] = {}
        self._attributes: Mapping[str, Any] | None = None
        self._marks = Marks()
        self._snapshot: LedgerSnapshot | None = None
