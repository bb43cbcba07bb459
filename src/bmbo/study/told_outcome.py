"""Check what a user tells about a trial, and turn it into an outcome."""

from datetime import datetime
from typing import Literal

from optuna.trial import TrialState

from bmbo.history import Outcome
from bmbo.ledger import LedgerEntry
from bmbo.problem import Ladder
from bmbo.problem.number_checks import finite_amount
from bmbo.study.trial import as_number

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


def outcome_of(
    ladder: Ladder, entry: LedgerEntry, value: object, error: str | None, *, cost: object, seconds: object
) -> Outcome:
    """Return the outcome of a trial that a user ran.

    If costs are measured and no seconds are given, the time since the trial was asked for counts.
    """
    price = None if cost is None else finite_amount("cost", cost)
    lasted = None if seconds is None else finite_amount("seconds", seconds)
    if ladder.measured:
        lasted = lasted if lasted is not None else price
        if lasted is None:
            lasted = 0.0 if entry.begun is None else max((datetime.now() - entry.begun).total_seconds(), 0.0)
        price = lasted if price is None else price
    elif price is None:
        price = ladder.costs[entry.trial.query.level]
    if value is None:
        return Outcome(None, price, lasted or 0.0, error=error or "it was told to have failed")
    return Outcome.of(as_number(value), price, lasted or 0.0)
