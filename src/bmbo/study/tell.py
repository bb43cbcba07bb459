"""What a user tells of a trial, checked and turned into an outcome."""

from datetime import datetime
from typing import Literal

from optuna.trial import TrialState

from bmbo.history import Outcome
from bmbo.ledger import Entry
from bmbo.problem import Ladder
from bmbo.study.import_export import as_cost
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
    """Where a trial is to stand after a value, an error or a state was told of it."""
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
    ladder: Ladder, entry: Entry, value: object, error: str | None, *, cost: object, seconds: object
) -> Outcome:
    """The outcome of a trial that a user ran; without seconds, measured costs count from when it was asked for."""
    price = None if cost is None else as_cost(cost)
    lasted = None if seconds is None else as_cost(seconds, "seconds")
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
