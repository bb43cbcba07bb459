"""Convert between trials of bmbo and trials of Optuna: this file decides what is stored where."""

import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import Outcome, Query, TrialRecord
from bmbo.ledger.attribute_keys import (
    APART,
    BATCH,
    BEAT,
    CHECKPOINT,
    COST,
    DUPLICATE_OF,
    ERROR,
    FIDELITY,
    IMPORTED,
    LEVEL,
    MEASURED,
    OWNER,
    PREFIX,
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
from bmbo.ledger.ledger_entries import LedgerEntry, State, StoredTrial
from bmbo.ledger.optuna_private import VIOLATIONS
from bmbo.ledger.passwords import without_passwords
from bmbo.problem import Problem, Space
from bmbo.problem.foreign_spaces import to_optuna
from bmbo.problem.number_checks import is_real


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
        params, unit = problem.space.exact_at(stored.params)
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


@cache
def optuna_distributions(space: Space) -> Mapping[str, Any]:
    """Return the space as Optuna's distributions; raise ValueError if Optuna cannot express it."""
    return to_optuna(space)
