"""Checkpoint folders: one a trial, found again by who continues its configuration, removed when of no use."""

import re
import shutil
from pathlib import Path
from typing import Literal

from bmbo.history import History, Query, TrialRecord

Keep = Literal["all", "useful", "none"]
KEEPS: tuple[Keep, ...] = ("all", "useful", "none")


def root_in(folder: Path, study_name: str) -> Path:
    """Where a study keeps its checkpoints by default."""
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', study_name)}-checkpoints"


def folder_for(root: Path, number: int) -> Path:
    """The folder of one trial, there or not."""
    return root / f"trial-{number:05d}"


def source_of(root: Path, history: History, query: Query) -> TrialRecord | None:
    """The finished trial to go on from: the same configuration, the highest lower level that left a checkpoint."""
    before = [t for t in history.done if t.query.unit == query.unit and t.query.level < query.level]
    # Of two at one level, the later.
    for trial in sorted(before, key=lambda t: (t.query.level, t.number), reverse=True):
        if folder_for(root, trial.number).is_dir():
            return trial
    return None


def clean(root: Path, history: History, keep: Keep) -> list[int]:
    """Removes folders of finished trials and gives the trials' numbers; what trials in flight need stays.

    "useful" are the best trial's and, of each configuration, that of the highest finished level below the top.
    """
    if keep not in KEEPS:
        raise ValueError(f"keep must be one of {list(KEEPS)}, got {keep!r}")
    if keep == "all":
        return []
    kept = {trial.number for trial in history.pending}
    sources = (source_of(root, history, trial.query) for trial in history.pending)
    kept |= {source.number for source in sources if source is not None}
    if keep == "useful":
        kept |= _useful(history)
    removed = [t.number for t in history.trials if t.number not in kept and folder_for(root, t.number).is_dir()]
    for number in removed:
        shutil.rmtree(folder_for(root, number), ignore_errors=True)
    return removed


def _useful(history: History) -> set[int]:
    highest: dict[tuple[float, ...], TrialRecord] = {}
    for trial in history.done:
        known = highest.get(trial.query.unit)
        is_higher = known is None or trial.query.level >= known.query.level
        if trial.query.level < history.problem.ladder.top and is_higher:
            highest[trial.query.unit] = trial
    best = history.best
    return {trial.number for trial in highest.values()} | ({best.number} if best is not None else set())
