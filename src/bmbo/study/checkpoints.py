"""Keep one checkpoint folder for each trial: find it to continue a configuration, remove it when it is of no use."""

import atexit
import functools
import hashlib
import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Literal

from optuna.storages import InMemoryStorage

from bmbo.history import History, Query, TrialRecord
from bmbo.history.same_point import same_configuration
from bmbo.ledger import Ledger, file_of, folder_of

Keep = Literal["all", "useful", "none"]
KEEPS: tuple[Keep, ...] = ("all", "useful", "none")

LONGEST_NAME = 60
"""How many characters of a study's name its folder has: enough to recognise it, and no more than a file may have."""


STORAGE_ENDINGS = (".db", ".sqlite", ".sqlite3", ".log", ".journal")
"""How the files of storages usually end: see `_old_root`."""


def root_of(ledger: Ledger) -> Path:
    """Return where a study keeps its checkpoints by default: in a folder that no other study has.

    The folder is beside the file of the storage. Of a study in memory, it is a temporary one, which is removed when the
    process ends, as the study is. Of a study on a server, it is in the working directory.
    """
    if isinstance(ledger.storage, InMemoryStorage):
        return _temporary_root(ledger.key)
    file = file_of(ledger.storage)
    old = _old_root(ledger) if not ledger.key else None
    if old is not None:
        return old
    # With the name of the file, because the copy of a file has a study of the same key.
    unique = hashlib.sha256(f"{ledger.key}|{ledger.name}|{file.name if file else ''}".encode()).hexdigest()[:12]
    return folder_of(ledger.storage) / f"{_plain(ledger.name)[:LONGEST_NAME]}-{unique}-checkpoints"


@functools.cache
def _temporary_root(key: str) -> Path:  # noqa: ARG001 - one folder for each key
    """Return where a study in memory keeps its checkpoints until this process ends; the folder is not made here."""
    root = Path(tempfile.gettempdir()) / f"bmbo-{uuid.uuid4().hex}-checkpoints"
    atexit.register(_remove, root, os.getpid())
    return root


def _remove(root: Path, process: int) -> None:
    """Remove a folder, unless this is a child of the process that the folder is for."""
    if os.getpid() == process:
        shutil.rmtree(root, ignore_errors=True)


def _old_root(ledger: Ledger) -> Path | None:
    """Return the folder that earlier versions used, if it exists and no other study can have used it too.

    Two studies had the same folder if their names differed only in characters that no file should have, or if they had
    one name in two storages in the same folder.
    """
    root, file = folder_of(ledger.storage) / f"{_plain(ledger.name)}-checkpoints", file_of(ledger.storage)
    try:
        is_there = root.is_dir()
        beside = [each for each in root.parent.iterdir() if each.suffix in STORAGE_ENDINGS] if is_there else []
    except OSError:
        # The name is too long for a folder, or the folder cannot be read.
        return None
    names = [study.study_name for study in ledger.storage.get_all_studies()] if is_there else []
    is_shared = [_plain(name) for name in names].count(_plain(ledger.name)) > 1
    others = [each for each in beside if file is None or each.name != file.name]
    return root if is_there and not is_shared and not others else None


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)


def make_private(folder: Path) -> None:
    """Make the folder of a trial, and the one around it, for this user alone; a folder that exists stays as it is."""
    # One by one, because the mode counts only for the last of several folders that are made at once.
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def folder_for(root: Path, number: int) -> Path:
    """Return the folder of one trial, which may not exist yet."""
    return root / f"trial-{number:05d}"


def source_of(root: Path, history: History, query: Query) -> TrialRecord | None:
    """Return the finished trial to continue: the same configuration at the highest lower level with a checkpoint."""
    # Two runs of a configuration that share their beginning would share its luck too.
    if query.level == 0 or history.problem.noisy:
        return None
    before = [t for t in history.done if t.query.level < query.level and same_configuration(t.query.unit, query.unit)]
    if history.problem.continues:
        # What the plan and the costs do not know must not be continued either.
        before = [t for t in before if t.outcome is not None and t.outcome.checkpoint]
    # If one level has two of them, the later one is taken.
    for trial in sorted(before, key=lambda t: (t.query.level, t.number), reverse=True):
        if folder_for(root, trial.number).is_dir():
            return trial
    return None


def is_left(root: Path, number: int) -> bool:
    """Return whether a trial left a checkpoint: anything in its folder."""
    folder = folder_for(root, number)
    return folder.is_dir() and next(folder.iterdir(), None) is not None


def clean(root: Path, history: History, keep: Keep) -> list[int]:
    """Remove folders of finished trials and return the numbers of these trials; what trials in flight need stays.

    "useful" keeps the folders of the best trials and, for each configuration, that of its highest finished level below
    the top. In a noisy study it keeps those of all trials at the top.
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
    if history.problem.noisy:  # which of them is the answer, only a model says, and it may still change
        return {trial.number for trial in history.at_top}
    return {trial.number for trial in (*highest.values(), *history.front)}
