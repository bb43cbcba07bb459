"""Define the trial that an objective receives and that readers of a study see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from bmbo.history import History
from bmbo.ledger import LedgerEntry
from bmbo.problem import FidelityValue
from bmbo.study.checkpoints import folder_for, source_of


@dataclass(frozen=True)
class Trial:
    """Hold what an objective receives, and after it has run also what it gave.

    Attributes:
        number: of the trial in its study.
        params: the configuration to run.
        fidelity: the value of the fidelity to run it at.
        level: the number of the fidelity; 0 is the roughest.
        state: "waiting", "running", "complete", "failed" or "dropped".
        value: what was observed; None while the trial runs, or if it failed.
        error: why it failed.
        cost: what it cost.
        refunded: whether that cost was given back, so that it is no part of what the study has spent.
        seconds: how long it ran.
        resume_from: checkpoint folder of the same configuration at the highest lower fidelity, to continue from it;
            None if there is none.
        begun: the local time at which it began.
        ended: the local time at which it ended.
    """

    number: int
    params: Mapping[str, Any]
    fidelity: FidelityValue
    level: int
    state: str = "running"
    value: float | None = None
    error: str | None = None
    cost: float | None = None
    refunded: bool = False
    seconds: float | None = field(default=None, compare=False)
    resume_from: Path | None = field(default=None, compare=False)
    begun: datetime | None = field(default=None, compare=False, repr=False)
    ended: datetime | None = field(default=None, compare=False, repr=False)
    _folder: Path = field(default=Path(), compare=False, repr=False)

    @property
    def checkpoint_dir(self) -> Path:
        """Return the folder of this trial, made at the first call; a trial that is run again finds the same folder."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder


@dataclass(frozen=True)
class StudyRecommendation:
    """Hold the configuration that the surrogate chooses at the top fidelity, the value it expects and its deviation."""

    params: Mapping[str, Any]
    value: float
    std: float


def view(root: Path, history: History, entry: LedgerEntry) -> Trial:
    """Return a trial as users see it; `root` is where the study keeps checkpoints."""
    trial, problem = entry.trial, history.problem
    outcome = trial.outcome
    # The ledger says where a finished trial came from; for others it is found here.
    source = entry.resume_from
    if outcome is None and (found := source_of(root, history, trial.query)) is not None:
        source = found.number
    return Trial(
        number=trial.number,
        params=problem.space.decode(trial.query.unit),
        fidelity=problem.ladder[trial.query.level].value,
        level=trial.query.level,
        state=entry.state,
        value=trial.value,
        error=None if outcome is None else outcome.error,
        cost=None if outcome is None else outcome.cost,
        refunded=trial.refunded,
        seconds=None if outcome is None else outcome.seconds,
        # Absolute: a worker may have another working directory.
        resume_from=None if source is None else folder_for(root, source).absolute(),
        begun=entry.begun,
        ended=entry.ended,
        _folder=folder_for(root, trial.number).absolute(),
    )


def as_number(value: object) -> float:
    """Return a plain float; raise TypeError if the value is not a real number."""
    if isinstance(value, bool | str | bytes | complex | np.bool_ | np.complexfloating) or value is None:
        raise TypeError(f"an objective must return a real number, got {value!r}")
    try:
        return float(value)  # pyright: ignore[reportArgumentType] (anything with __float__ will do)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"an objective must return a real number, got {value!r}") from None
