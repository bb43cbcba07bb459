"""Hold trials as the ledger reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, TrialRecord
from bmbo.ledger.optuna_private import enqueued_params, trial_id
from bmbo.ledger.owners import Owner

ASKED = "asked"
"""The owner of trials that a user asked for and runs: they send no sign of life and are never queued again."""

State = Literal["waiting", "running", "complete", "failed", "dropped"]
"""The states of a trial in the words of bmbo. A dropped trial was complete or failed before."""


@dataclass(frozen=True)
class StoredTrial:
    """Hold what the ledger reads of a trial in a storage.

    Attributes:
        number: of the trial in its study.
        trial_id: the id by which the storage knows it.
        state: in Optuna's words.
        params: its configuration.
        attributes: its user attributes.
        values: of all objectives; empty if there is nothing.
        begun: local time of its start.
        ended: local time of its end.
    """

    number: int
    trial_id: int
    state: TrialState
    params: Mapping[str, Any]
    attributes: Mapping[str, Any]
    values: tuple[float, ...]
    begun: datetime | None
    ended: datetime | None

    @classmethod
    def of(cls, trial: FrozenTrial) -> "StoredTrial":
        """Return what the ledger reads of a trial of Optuna."""
        return cls(
            trial.number,
            trial_id(trial),
            trial.state,
            trial.params or enqueued_params(trial),
            trial.user_attrs,
            tuple(trial.values or ()),
            trial.datetime_start,
            trial.datetime_complete,
        )


@dataclass(frozen=True)
class LedgerEntry:
    """Hold a trial together with what only the ledger knows about it.

    Attributes:
        trial: number, query and outcome.
        trial_id: the id by which Optuna's storage knows it.
        state: waiting, running, complete, failed or dropped.
        owner: the process that runs it.
        beat: the newest sign of life of its owner, a count.
        retries: how often it was queued again because its worker died, and the trial may have been the cause.
        batch: the number of the batch in which it was planned.
        duplicate_of: number of the trial that it repeats, if a second result arrived for that trial.
        retry_of: number of the failed trial that it runs again.
        begun: local time of its start.
        ended: local time of its end.
        apart: whether it runs in another process than its owner.
        told_by: the attempt that gave its outcome.
        imported: the key of the row of old results that it holds.
        stopped_from: the level at which it was planned, if it was stopped early.
        params: the configuration, with the very values that were given or chosen.
        user_attrs: what a user noted on the trial.
    """

    trial: TrialRecord
    trial_id: int
    state: State
    owner: str | None = None
    beat: int = 0
    retries: int = 0
    batch: int | None = None
    duplicate_of: int | None = None
    retry_of: int | None = None
    begun: datetime | None = None
    ended: datetime | None = None
    apart: bool = False
    told_by: str | None = None
    imported: str | None = None
    stopped_from: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    user_attrs: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @property
    def resume_from(self) -> int | None:
        """Return the number of the trial whose checkpoint it continues."""
        return self.trial.resumed_from


@dataclass(frozen=True)
class LedgerSnapshot:
    """Hold everything that the ledger contained when it was read."""

    history: History
    entries: tuple[LedgerEntry, ...]

    @cached_property
    def waiting(self) -> tuple[LedgerEntry, ...]:
        """Return the trials that any process may claim."""
        return tuple(entry for entry in self.entries if entry.state == "waiting")

    @cached_property
    def running(self) -> tuple[LedgerEntry, ...]:
        """Return the trials that runs have claimed, without those that a user asked for."""
        return tuple(entry for entry in self.entries if entry.state == "running" and entry.owner != ASKED)

    @cached_property
    def next_batch(self) -> int:
        """Return the number of the next batch."""
        return 1 + max((entry.batch for entry in self.entries if entry.batch is not None), default=-1)


def attempt_of(owner: str, entry: LedgerEntry) -> str:
    """Return a name for one attempt at a trial: of this owner, after so many deaths."""
    return f"{owner}#{entry.retries}"


def shown_owner(owner: str) -> str:
    """Return the owner of a trial for people to read: machine and process."""
    known = Owner.of(owner)
    if known is None:
        return "you (by ask)" if owner == ASKED else owner
    return f"{known.host.partition('/')[0]}:{known.pid}"
