"""Convert between trials of bmbo and trials of Optuna: this file decides what is stored where."""

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from typing import Any, Literal

import optuna
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, Outcome, Query, TrialRecord
from bmbo.ledger.attribute_keys import (
    APART,
    BATCH,
    BEAT,
    CHECKPOINT,
    COST,
    DROPPED,
    DUPLICATE_OF,
    ERROR,
    FIDELITY,
    IMPORTED,
    LEVEL,
    LOST,
    MEASURED,
    OWNER,
    PREFIX,
    REFUNDED,
    REPORTED,
    RESUME_FROM,
    RETRIES,
    RETRY_OF,
    SECONDS,
    STOPPED_FROM,
    TAG,
    TOLD_BY,
    WRITE_KEY,
)
from bmbo.ledger.checked_attributes import CheckedAttributes
from bmbo.ledger.optuna_private import VIOLATIONS, enqueued_params, trial_id
from bmbo.ledger.owners import Owner
from bmbo.ledger.passwords import without_passwords
from bmbo.problem import Problem, Space
from bmbo.problem.foreign_spaces import to_optuna
from bmbo.problem.number_checks import is_real

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


def trial_template(
    problem: Problem,
    query: Query,
    extra: Mapping[str, Any],
    outcome: Outcome | None = None,
    params: Mapping[str, Any] | None = None,
) -> FrozenTrial:
    """Return a trial of Optuna that a storage can write in one step, with a key by which a second try knows it again.

    It is finished if there is an outcome, running if `extra` has an owner, and waiting otherwise.

    Args:
        problem: of the study.
        query: what is to be run.
        extra: further attributes of the trial.
        outcome: the result, if it is known already.
        params: the configuration, if it is to be kept more exactly than the query can say it.
    """
    fidelity = problem.ladder[query.level]
    attributes: dict[str, Any] = {LEVEL: query.level, FIDELITY: fidelity.value, **extra}
    # Where training continues, the cost is known when the trial begins.
    if fidelity.cost != "measure" and not problem.continues:
        attributes[COST] = fidelity.cost
    if query.tag:
        attributes[TAG] = dict(query.tag)
    values, state, now = (), TrialState.WAITING, datetime.now()
    config = problem.space.decode(query.unit) if params is None else dict(params)
    known = optuna_distributions(problem.space)
    if OWNER in extra:
        state = TrialState.RUNNING
    if outcome is not None:
        attributes.update(outcome_attributes(outcome, problem))
        values, state = outcome.values, optuna_state(problem, query.level, outcome)
    trial = optuna.trial.create_trial(
        # The real state is set below: create_trial accepts a value only for complete trials, but bmbo also stores the
        # values of trials below the top level, which are pruned trials for Optuna.
        state=TrialState.WAITING,
        params=config,
        distributions={name: known[name] for name in known if name in config},
        user_attrs=attributes,
        system_attrs={WRITE_KEY: uuid.uuid4().hex, **system_attributes(outcome, problem)},
    )
    trial.state = state
    trial.values = list(values) or None
    step = shown_step(problem, query.level)
    if values and step is not None:
        trial.intermediate_values = {step: values[0]}
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


def shown_step(problem: Problem, level: int) -> int | None:
    """Return where the value of a trial is shown as an intermediate one: at a level below the top, if there is one.

    Optuna has no intermediate values for several objectives.
    """
    return None if level == problem.ladder.top or problem.objectives else level


def outcome_attributes(outcome: Outcome, problem: Problem) -> dict[str, Any]:
    """Return the attributes that store an outcome, apart from its value."""
    attributes: dict[str, Any] = {COST: outcome.cost, SECONDS: outcome.seconds}
    if outcome.checkpoint:
        attributes[CHECKPOINT] = True
    if outcome.measured:
        names = [limit.name for limit in problem.constraints]
        attributes[MEASURED] = dict(zip(names, outcome.measured, strict=True))
    return attributes if outcome.error is None else {**attributes, ERROR: without_passwords(outcome.error)}


def system_attributes(outcome: Outcome | None, problem: Problem) -> dict[str, Any]:
    """Return the attributes by which Optuna and its dashboard know whether an outcome keeps the constraints."""
    if outcome is None or not outcome.measured:
        return {}
    pairs = zip(problem.constraints, outcome.measured, strict=True)
    return {VIOLATIONS: [limit.violation(value) for limit, value in pairs]}


def entry_from_trial(problem: Problem, stored: StoredTrial) -> LedgerEntry:
    """Return the entry for a trial in the storage.

    A trial that was added or queued with Optuna itself, without bmbo, counts as a trial at the top.

    Raises:
        ValueError: The parameters of the trial do not belong to the space of the study, or something else than bmbo
            changed its attributes.
    """
    checked = CheckedAttributes(stored.number, stored.attributes)
    try:
        params = problem.space.exact(stored.params)
        unit = problem.space.encode(params)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"trial {stored.number} in the storage is none of this study's space, was it made by Optuna? {error}"
        ) from None
    level = _level(problem, stored, checked)
    query = Query(unit, level, checked.table(TAG))
    states: dict[TrialState, State] = {TrialState.WAITING: "waiting", TrialState.RUNNING: "running"}
    outcome = _outcome(problem, stored, checked, level)
    ended: State = "failed" if outcome.value is None else "complete"
    return LedgerEntry(
        TrialRecord(
            stored.number,
            query,
            outcome if stored.state.is_finished() else None,
            resumed_from=checked.number_or_none(RESUME_FROM),
            reported=_reported(checked, level),
        ),
        stored.trial_id,
        states.get(stored.state, ended),
        checked.text(OWNER),
        checked.whole(BEAT, 0),
        checked.whole(RETRIES, 0),
        checked.number_or_none(BATCH),
        checked.number_or_none(DUPLICATE_OF),
        checked.number_or_none(RETRY_OF),
        stored.begun,
        stored.ended,
        checked.flag(APART),
        checked.text(TOLD_BY),
        checked.text(IMPORTED),
        checked.number_or_none(STOPPED_FROM, at_most=problem.ladder.top),
        params,
        {key: value for key, value in stored.attributes.items() if not key.startswith(PREFIX)},
    )


def _reported(checked: CheckedAttributes, level: int) -> tuple[tuple[int, float], ...]:
    """Return what a trial reported at levels below its own."""
    found: list[tuple[int, float]] = []
    for below, value in checked.table(REPORTED).items():
        if not below.isdecimal() or not is_real(value) or not math.isfinite(value):
            checked.refuse(REPORTED, "a table of finite numbers by levels")
        if int(below) < level:
            found.append((int(below), float(value)))
    return tuple(sorted(found))


def reached_attributes(problem: Problem, entry: LedgerEntry, level: int) -> dict[str, Any]:
    """Return the attributes of a trial that was stopped at a level below the one at which it was planned."""
    return {LEVEL: level, FIDELITY: problem.ladder[level].value, STOPPED_FROM: entry.trial.query.level}


def reported_attributes(reported: Mapping[int, float]) -> dict[str, Any]:
    """Return the attributes that store what a trial reported on its way."""
    return {REPORTED: {str(level): value for level, value in sorted(reported.items())}} if reported else {}


def _level(problem: Problem, stored: StoredTrial, checked: CheckedAttributes) -> int:
    """Return the level of a trial; raise ValueError if it does not agree with what else is stored of the trial."""
    level = checked.whole(LEVEL, problem.ladder.top, at_most=problem.ladder.top)
    # A trial that Optuna made has neither.
    expected = problem.ladder[level].value if LEVEL in checked.stored else None
    found = checked.stored.get(FIDELITY)
    # For Python, true is 1.
    if found != expected or isinstance(found, bool) != isinstance(expected, bool):
        checked.refuse(FIDELITY, f"{expected!r}, as its level says")
    wrong = TrialState.COMPLETE if level < problem.ladder.top else TrialState.PRUNED
    if LEVEL in checked.stored and stored.state == wrong:
        checked.refuse(LEVEL, f"that of a trial that is {stored.state.name.lower()}")
    return level


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


def _outcome(problem: Problem, stored: StoredTrial, checked: CheckedAttributes, level: int) -> Outcome:
    price = problem.ladder[level].cost
    cost = checked.amount(COST, 0.0 if price == "measure" else float(price))
    seconds = checked.amount(SECONDS, 0.0)
    error, checkpoint = checked.text(ERROR), checked.flag(CHECKPOINT)
    values: tuple[float, ...] = () if stored.state == TrialState.FAIL else stored.values
    is_whole = len(values) == problem.num_objectives
    if not is_whole and LEVEL in checked.stored and stored.state in (TrialState.COMPLETE, TrialState.PRUNED):
        raise ValueError(
            f"trial {stored.number} in the storage has lost its value: the storage is damaged, or something else than "
            "bmbo changed it; go on with a backup"
        )
    if not is_whole or not values:
        return Outcome(None, cost, seconds, error=error or "it failed without a reason")
    outcome = Outcome.of_several(values, cost, seconds)
    if outcome.value is None:
        return outcome
    return replace(outcome, checkpoint=checkpoint, measured=_measured(problem, checked))


def _measured(problem: Problem, checked: CheckedAttributes) -> tuple[float, ...]:
    """Return the measured values of a trial; none for a trial that Optuna made."""
    stored = checked.table(MEASURED)
    names = [limit.name for limit in problem.constraints]
    is_whole = sorted(stored) == sorted(names) and all(
        is_real(each) and math.isfinite(each) for each in stored.values()
    )
    if stored and not is_whole:
        checked.refuse(MEASURED, f"a number for each of {names}")
    return tuple(float(stored[name]) for name in names) if stored else ()


def attempt_of(owner: str, entry: LedgerEntry) -> str:
    """Return a name for one attempt at a trial: of this owner, after so many deaths."""
    return f"{owner}#{entry.retries}"


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
