"""Keep one checkpoint folder for each trial: find it to continue a configuration, remove it when it is of no use."""

import re
import shutil
from pathlib import Path
from typing import Literal

from bmbo.history import History, Query, TrialRecord
from bmbo.history.same_point import same_configuration

Keep = Literal["all", "useful", "none"]
KEEPS: tuple[Keep, ...] = ("all", "useful", "none")


def root_in(folder: Path, study_name: str) -> Path:
    """Return where a study keeps its checkpoints by default."""
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', study_name)}-checkpoints"


def folder_for(root: Path, number: int) -> Path:
    """Return the folder of one trial, which may not exist yet."""
    return root / f"trial-{number:05d}"


def source_of(root: Path, history: History, query: Query) -> TrialRecord | None:
    """Return the finished trial to continue: the same configuration at the highest lower level with a checkpoint."""
    before = [t for t in history.done if t.query.level < query.level and same_configuration(t.query.unit, query.unit)]
    # If one level has two of them, the later one is taken.
    for trial in sorted(before, key=lambda t: (t.query.level, t.number), reverse=True):
        if folder_for(root, trial.number).is_dir():
            return trial
    return None


def clean(root: Path, history: History, keep: Keep) -> list[int]:
    """Remove folders of finished trials and return the numbers of these trials; what trials in flight need stays.

    "useful" keeps the folder of the best trial and, for each configuration, that of its highest finished level below
    the top.
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
    """Return the numbers of the trials whose folders may be needed again."""
    # By their points: see `same_configuration`.
    highest: dict[tuple[float, ...], TrialRecord] = {}
    for trial in history.done:
        known = highest.get(trial.query.unit)
        is_higher = known is None or trial.query.level >= known.query.level
        if trial.query.level < history.problem.ladder.top and is_higher:
            highest[trial.query.unit] = trial
    best = history.best
    return {trial.number for trial in highest.values()} | ({best.number} if best is not None else set())
