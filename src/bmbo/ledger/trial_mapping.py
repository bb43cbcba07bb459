"""Between our trials and Optuna's: what is stored where."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

import optuna
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, Outcome, Query, TrialRecord
from bmbo.ledger.storages import id_of
from bmbo.problem import Problem, Space
from bmbo.problem.conversions import to_optuna

LEVEL, FIDELITY, COST, BATCH, TAG = "bmbo:level", "bmbo:fidelity", "bmbo:cost", "bmbo:batch", "bmbo:tag"
RESUME_FROM, RETRIES, OWNER, BEAT = "bmbo:resume_from", "bmbo:retries", "bmbo:owner", "bmbo:beat"
SECONDS, ERROR, DUPLICATE_OF = "bmbo:seconds", "bmbo:error", "bmbo:duplicate_of"

ASKED = "asked"
"""Owner of trials that a user runs: they have no sign of life and are nobody's orphans."""

State = Literal["waiting", "running", "complete", "failed"]


@dataclass(frozen=True)
class Entry:
    """A trial and what the ledger knows beyond it.

    Attributes:
        trial: number, query and outcome.
        trial_id: Optuna's name for it.
        state: where it stands.
        owner, beat: who runs it, and the newest sign of life.
        retries: how often it was queued again because its worker died.
        batch: with which others it was planned.
        resume_from: number of the trial whose checkpoint it went on from.
        duplicate_of: number of the trial that it ran once more, where a result came after another one.
        begun, ended: local times.
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
    begun: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class Record:
    """The ledger at one moment."""

    history: History
    entries: tuple[Entry, ...]

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """Trials that anyone may claim."""
        return tuple(entry for entry in self.entries if entry.state == "waiting")

    @property
    def running(self) -> tuple[Entry, ...]:
        """Trials that a run has claimed; those that a user asked for are not among them."""
        return tuple(entry for entry in self.entries if entry.state == "running" and entry.owner != ASKED)

    @property
    def next_batch(self) -> int:
        """The number of the next batch."""
        return 1 + max((entry.batch for entry in self.entries if entry.batch is not None), default=-1)


def template(problem: Problem, query: Query, extra: Mapping[str, Any], outcome: Outcome | None = None) -> FrozenTrial:
    """A whole trial to be written at once: finished where there is an outcome, else waiting, running with an owner."""
    fidelity = problem.ladder[query.level]
    marks: dict[str, Any] = {LEVEL: query.level, FIDELITY: fidelity.value, **extra}
    if fidelity.cost != "measure":
        marks[COST] = fidelity.cost
    if query.tag:
        marks[TAG] = dict(query.tag)
    value, state, now = None, TrialState.WAITING, datetime.now()
    if OWNER in extra:
        state = TrialState.RUNNING
    if outcome is not None:
        marks.update(marks_of(outcome))
        value, state = outcome.value, state_of(problem, query.level, outcome)
    trial = optuna.trial.create_trial(
        # Checked by create_trial, which asks for a value of complete trials only and refuses it with others.
        state=TrialState.WAITING,
        params=problem.space.decode(query.unit),
        distributions=dict(distributions(problem.space)),
        user_attrs=marks,
    )
    trial.state = state
    trial.values = None if value is None else [value]
    if value is not None and query.level < problem.ladder.top:
        trial.intermediate_values = {query.level: value}
    trial.datetime_start = None if state == TrialState.WAITING else now
    trial.datetime_complete = now if state.is_finished() else None
    return trial


def state_of(problem: Problem, level: int, outcome: Outcome) -> TrialState:
    """Complete at the top alone: what Optuna and its dashboard call best is then the best at the top."""
    if outcome.value is None:
        return TrialState.FAIL
    return TrialState.COMPLETE if level == problem.ladder.top else TrialState.PRUNED


def marks_of(outcome: Outcome) -> dict[str, Any]:
    """The attributes in which an outcome is kept, beside its value."""
    marks: dict[str, Any] = {COST: outcome.cost, SECONDS: outcome.seconds}
    return marks if outcome.error is None else {**marks, ERROR: outcome.error}


def entry_of(problem: Problem, stored: FrozenTrial) -> Entry:
    """Our side of a stored trial; one that was added or enqueued by way of Optuna counts as a trial at the top."""
    marks = stored.user_attrs
    try:
        # Optuna keeps the parameters of what it has enqueued here.
        unit = problem.space.encode(stored.params or stored.system_attrs.get("fixed_params", {}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"trial {stored.number} in the storage is none of this study's space, was it made by Optuna? {error}"
        ) from None
    level = int(marks.get(LEVEL, problem.ladder.top))
    query = Query(unit, level, dict(marks.get(TAG, {})))
    states: dict[TrialState, State] = {TrialState.WAITING: "waiting", TrialState.RUNNING: "running"}
    outcome = _outcome(problem, stored, level) if stored.state.is_finished() else None
    ended: State = "failed" if outcome is not None and outcome.value is None else "complete"
    return Entry(
        TrialRecord(stored.number, query, outcome),
        id_of(stored),
        states.get(stored.state, ended),
        marks.get(OWNER),
        int(marks.get(BEAT, 0)),
        int(marks.get(RETRIES, 0)),
        marks.get(BATCH),
        marks.get(RESUME_FROM),
        marks.get(DUPLICATE_OF),
        stored.datetime_start,
        stored.datetime_complete,
    )


def _outcome(problem: Problem, stored: FrozenTrial, level: int) -> Outcome:
    marks, given = stored.user_attrs, problem.ladder[level].cost
    cost = float(marks.get(COST, 0.0 if given == "measure" else given))
    seconds = float(marks.get(SECONDS, 0.0))
    value = None if stored.state == TrialState.FAIL or not stored.values else stored.values[0]
    if value is None:
        return Outcome(None, cost, seconds, error=str(marks.get(ERROR, "it failed without a reason")))
    return Outcome.of(value, cost, seconds)


@cache
def distributions(space: Space) -> Mapping[str, Any]:
    """The space in Optuna's words."""
    return to_optuna(space)
