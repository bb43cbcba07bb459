"""Check what a user tells about a trial, and turn it into an outcome."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from optuna.trial import TrialState

from bmbo.history import History, Outcome
from bmbo.ledger import LedgerEntry
from bmbo.problem.number_checks import finite_amount
from bmbo.study.returned import outcome_of_returned

State = Literal["complete", "fail", "waiting"]
_STATES: dict[object, State] = {
    "complete": "complete",
    "pruned": "complete",
    "fail": "fail",
    "failed": "fail",
    "waiting": "waiting",
}


def state_of(value: object, error: object, state: object) -> State:
    """Return the state of a trial after a value, an error or a state was told; raise ValueError if they disagree."""
    if value is not None and error is not None:
        raise ValueError(f"tell needs either a value or an error, got value {value!r} and error {error!r}")
    implied: State | None = None if value is None and error is None else "fail" if value is None else "complete"
    if state is None:
        if implied is None:
            raise ValueError("tell needs either a value or an error")
        return implied
    # Optuna's states and their names.
    wanted = _STATES.get(state.name.lower() if isinstance(state, TrialState) else state)
    if wanted is None:
        raise ValueError(f"state must be 'complete', 'fail' or 'waiting', got {state!r}")
    if implied not in (None, wanted) or (implied is None and wanted == "complete"):
        raise ValueError(f"state {wanted!r} does not go with value {value!r} and error {error!r}")
    return wanted


def reaching(entry: LedgerEntry, level: int | None) -> LedgerEntry:
    """Return a trial as it counts if it was stopped early at a level; None leaves it as it is."""
    if level is None:
        return entry
    return replace(entry, trial=replace(entry.trial, query=replace(entry.trial.query, level=level)))


def outcome_of(
    history: History,
    entry: LedgerEntry,
    value: object,
    error: str | None,
    *,
    noted: Mapping[str, Any],
    cost: object,
    seconds: object,
) -> tuple[Outcome, Mapping[str, Any]]:
    """Return the outcome of a trial that a user ran, and what is to be noted on it.

    If costs are measured and no seconds are given, the time since the trial was asked for counts.
    """
    ladder = history.problem.ladder
    price = None if cost is None else finite_amount("cost", cost)
    lasted = None if seconds is None else finite_amount("seconds", seconds)
    if ladder.measured:
        lasted = lasted if lasted is not None else price
        if lasted is None:
            lasted = 0.0 if entry.begun is None else max((datetime.now() - entry.begun).total_seconds(), 0.0)
        price = lasted if price is None else price
    elif price is None:
        begun_anew = entry.trial.resumed_from is None
        price = ladder.costs[entry.trial.query.level] if begun_anew else history.price_of(entry.trial)
    if value is None:
        return Outcome(None, price, lasted or 0.0, error=error or "it was told to have failed"), noted
    return outcome_of_returned(history.problem, value, noted, price, lasted or 0.0)
