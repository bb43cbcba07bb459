"""Convert between trials of bmbo and trials of Optuna: this file decides what is stored where."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Literal

import optuna
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, Outcome, Query, TrialRecord
from bmbo.ledger.attribute_keys import (
    BATCH,
    BEAT,
    COST,
    DROPPED,
    DUPLICATE_OF,
    ERROR,
    FIDELITY,
    LEVEL,
    OWNER,
    REFUNDED,
    RESUME_FROM,
    RETRIES,
    RETRY_OF,
    SECONDS,
    TAG,
)
from bmbo.ledger.optuna_private import enqueued_params, trial_id
from bmbo.ledger.owners import Owner
from bmbo.problem import Problem, Space
from bmbo.problem.foreign_spaces import to_optuna

ASKED = "asked"
"""The owner of trials that a user asked for and runs: they send no sign of life and are never queued again."""

State = Literal["waiting", "running", "complete", "failed", "dropped"]
"""The states of a trial in the words of bmbo. A dropped trial was complete or failed before."""


@dataclass(frozen=True)
class LedgerEntry:
    """Hold a trial together with what only the ledger knows about it.

    Attributes:
        trial: number, query and outcome.
        trial_id: the id by which Optuna's storage knows it.
        state: waiting, running, complete, failed or dropped.
        owner: the process that runs it.
        beat: the newest sign of life of its owner, a count.
        retries: how often it was queued again because its worker died.
        batch: the number of the batch in which it was planned.
        resume_from: number of the trial whose checkpoint it continues.
        duplicate_of: number of the trial that it repeats, if a second result arrived for that trial.
        retry_of: number of the failed trial that it runs again.
        begun: local time of its start.
        ended: local time of its end.
    """

    trial: TrialRecord
    trial_id: int
    state: State
    owner: str | None = None
    beat: int = 0
    retries: int = 0
    batch: int | None = None
    resume_from: int | None = None
    duplicate_of: int | None = None
    retry_of: int | None = None
    begun: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class LedgerSnapshot:
    """Hold everything that the ledger contained when it was read."""

    history: History
    entries: tuple[LedgerEntry, ...]

    @property
    def waiting(self) -> tuple[LedgerEntry, ...]:
        """Return the trials that any process may claim."""
        return tuple(entry for entry in self.entries if entry.state == "waiting")

    @property
    def running(self) -> tuple[LedgerEntry, ...]:
        """Return the trials that runs have claimed, without those that a user asked for."""
        return tuple(entry for entry in self.entries if entry.state == "running" and entry.owner != ASKED)

    @property
    def next_batch(self) -> int:
        """Return the number of the next batch."""
        return 1 + max((entry.batch for entry in self.entries if entry.batch is not None), default=-1)


def trial_template(
    problem: Problem, query: Query, extra: Mapping[str, Any], outcome: Outcome | None = None
) -> FrozenTrial:
    """Return a trial of Optuna that a storage can write in one step.

    It is finished if there is an outcome, running if `extra` has an owner, and waiting otherwise.

    Args:
        problem: of the study.
        query: what is to be run.
        extra: further attributes of the trial.
        outcome: the result, if it is known already.
    """
    fidelity = problem.ladder[query.level]
    attributes: dict[str, Any] = {LEVEL: query.level, FIDELITY: fidelity.value, **extra}
    if fidelity.cost != "measure":
        attributes[COST] = fidelity.cost
    if query.tag:
        attributes[TAG] = dict(query.tag)
    value, state, now = None, TrialState.WAITING, datetime.now()
    if OWNER in extra:
        state = TrialState.RUNNING
    if outcome is not None:
        attributes.update(outcome_attributes(outcome))
        value, state = outcome.value, optuna_state(problem, query.level, outcome)
    trial = optuna.trial.create_trial(
        # The real state is set below: create_trial accepts a value only for complete trials, but bmbo also stores the
        # values of trials below the top level, which are pruned trials for Optuna.
        state=TrialState.WAITING,
        params=problem.space.decode(query.unit),
        distributions=dict(optuna_distributions(problem.space)),
        user_attrs=attributes,
    )
    trial.state = state
    trial.values = None if value is None else [value]
    if value is not None and query.level < problem.ladder.top:
        trial.intermediate_values = {query.level: value}
    trial.datetime_start = None if state == TrialState.WAITING else now
    trial.datetime_complete = now if state.is_finished() else None
    return trial


def optuna_state(problem: Problem, level: int, outcome: Outcome) -> TrialState:
    """Return the state of a finished trial in Optuna's words.

    Only trials at the top level are complete, those below are pruned. The best trial of Optuna and of its dashboard is
    therefore the best at the top.
    """
    if outcome.value is None:
        return TrialState.FAIL
    return TrialState.COMPLETE if level == problem.ladder.top else TrialState.PRUNED


def outcome_attributes(outcome: Outcome) -> dict[str, Any]:
    """Return the attributes that store an outcome, apart from its value."""
    attributes: dict[str, Any] = {COST: outcome.cost, SECONDS: outcome.seconds}
    return attributes if outcome.error is None else {**attributes, ERROR: outcome.error}


def entry_from_trial(problem: Problem, stored: FrozenTrial) -> LedgerEntry:
    """Return the entry for a trial in the storage.

    A trial that was added or queued with Optuna itself, without bmbo, counts as a trial at the top.

    Raises:
        ValueError: The parameters of the trial do not belong to the space of the study.
    """
    attributes = stored.user_attrs
    try:
        unit = problem.space.encode(stored.params or enqueued_params(stored))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"trial {stored.number} in the storage is none of this study's space, was it made by Optuna? {error}"
        ) from None
    level = int(attributes.get(LEVEL, problem.ladder.top))
    query = Query(unit, level, dict(attributes.get(TAG, {})))
    states: dict[TrialState, State] = {TrialState.WAITING: "waiting", TrialState.RUNNING: "running"}
    outcome = _outcome(problem, stored, level) if stored.state.is_finished() else None
    ended: State = "failed" if outcome is not None and outcome.value is None else "complete"
    return LedgerEntry(
        TrialRecord(stored.number, query, outcome),
        trial_id(stored),
        states.get(stored.state, ended),
        attributes.get(OWNER),
        int(attributes.get(BEAT, 0)),
        int(attributes.get(RETRIES, 0)),
        attributes.get(BATCH),
        attributes.get(RESUME_FROM),
        attributes.get(DUPLICATE_OF),
        attributes.get(RETRY_OF),
        stored.datetime_start,
        stored.datetime_complete,
    )


@dataclass(frozen=True)
class Marks:
    """Hold the numbers of the trials that were dropped, and of those whose cost was given back."""

    dropped: frozenset[int] = frozenset()
    refunded: frozenset[int] = frozenset()

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> "Marks":
        """Return the marks among the attributes of a study."""
        found: dict[str, set[int]] = {DROPPED: set(), REFUNDED: set()}
        for key in attributes:
            name, _, number = key.rpartition(":")
            if name in found:
                found[name].add(int(number))
        return cls(frozenset(found[DROPPED]), frozenset(found[REFUNDED]))

    def put_on(self, entry: LedgerEntry) -> LedgerEntry:
        """Return an entry with its marks; an entry that has not finished has none."""
        trial = entry.trial
        dropped, refunded = trial.number in self.dropped, trial.number in self.refunded
        if trial.outcome is None or not (dropped or refunded):
            return entry
        marked = replace(trial, dropped=dropped, refunded=refunded)
        return replace(entry, trial=marked, state="dropped" if dropped else entry.state)


def mark_key(name: str, number: int) -> str:
    """Return the key of the attribute that marks a trial; `name` is `DROPPED` or `REFUNDED`."""
    return f"{name}:{number}"


def _outcome(problem: Problem, stored: FrozenTrial, level: int) -> Outcome:
    attributes, price = stored.user_attrs, problem.ladder[level].cost
    cost = float(attributes.get(COST, 0.0 if price == "measure" else price))
    seconds = float(attributes.get(SECONDS, 0.0))
    value = None if stored.state == TrialState.FAIL or not stored.values else stored.values[0]
    if value is None:
        return Outcome(None, cost, seconds, error=str(attributes.get(ERROR, "it failed without a reason")))
    return Outcome.of(value, cost, seconds)


def shown_owner(owner: str) -> str:
    """Return the owner of a trial for people to read: machine and process."""
    known = Owner.of(owner)
    if known is None:
        return "you (by ask)" if owner == ASKED else owner
    return f"{known.host.partition('/')[0]}:{known.pid}"


@cache
def optuna_distributions(space: Space) -> Mapping[str, Any]:
    """Return the space as Optuna's distributions; raise ValueError if Optuna cannot express it."""
    return to_optuna(space)
