"""Records of runs: a line for the run, one for each evaluation and one for its end.

While a run goes on its lines are appended to a file with the ending .partial; a finished record is compressed and put
in its place whole, so that whatever has the ending .jsonl.gz can be relied on.
"""

import gzip
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from experiments.harness.settings import Task

FINISHED, CRASHED, TIMED_OUT = "finished", "crashed", "timed out"

ENDING = ".jsonl.gz"
PARTIAL = ".partial"


@dataclass(frozen=True)
class Evaluation:
    """One evaluation.

    Attributes:
        batch: 0 for the starts, then the number of the `ask`.
        level: its level.
        value: what it gave, in the objective's own units and direction; None for a failure.
        top: the value of the same configuration at the top, found outside the cost; None where that was not asked for.
        wall, cpu: seconds of the method before it: the `tell` of the batch before and the `ask` of this one, for the
            whole batch.
        recommended: true value at the top of what the method recommended after this batch; in its last row only.
    """

    batch: int
    level: int
    value: float | None
    top: float | None
    wall: float = 0.0
    cpu: float = 0.0
    recommended: float | None = None


@dataclass(frozen=True)
class Record:
    """A run as it was.

    Attributes:
        task: which run.
        header: what it ran under: settings, costs, optimum, versions.
        evaluations: in their order.
        status: how it ended.
        reason: why, where that needs words.
        seconds: of the whole run, the evaluations included.
    """

    task: Task
    header: dict[str, Any]
    evaluations: tuple[Evaluation, ...]
    status: str = FINISHED
    reason: str = ""
    seconds: float = 0.0

    @property
    def end(self) -> dict[str, Any]:
        """The last line."""
        return {"status": self.status, "reason": self.reason, "seconds": self.seconds}

    def same_course(self, other: "Record") -> bool:
        """Whether two runs evaluated the same with the same results; seconds may differ."""

        def course(record: "Record") -> list[Evaluation]:
            return [replace(evaluation, wall=0.0, cpu=0.0) for evaluation in record.evaluations]

        return course(self) == course(other)


def rounded(value: float | None, digits: int = 10) -> float | None:
    """So many significant digits: enough to tell regrets apart, and half as many bytes as all of them."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def lines(record: Record) -> list[str]:
    """A record as text."""
    rows = [json.dumps({"task": asdict(record.task), **record.header})]
    rows += [json.dumps(asdict(evaluation)) for evaluation in record.evaluations]
    return [*rows, json.dumps(record.end)]


def parse(text: Iterable[str]) -> Record:
    """A record from its lines; one that was cut short has crashed."""
    rows: list[dict[str, Any]] = []
    for line in text:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break  # the line that was being written
    if not rows:
        raise ValueError("the record is empty")
    header = dict(rows[0])
    task = Task(**header.pop("task"))
    end: dict[str, Any] = (
        rows[-1] if "status" in rows[-1] else {"status": CRASHED, "reason": "it was cut short", "seconds": 0.0}
    )
    names = Evaluation.__dataclass_fields__
    kept = [{name: row[name] for name in names} for row in rows[1:] if "status" not in row]
    return Record(task, header, tuple(Evaluation(**row) for row in kept), **end)


def path_of(folder: Path, task: Task) -> Path:
    """Where the record of a run lies."""
    return folder / f"{task.stem}{ENDING}"


def partial_path_of(folder: Path, task: Task) -> Path:
    """Where its lines lie while it runs."""
    return folder / f"{task.stem}{PARTIAL}"


def write(folder: Path, task: Task, text: Sequence[str]) -> None:
    """Puts a record in its place, whole, and removes what was written on the way."""
    path = path_of(folder, task)
    path.parent.mkdir(parents=True, exist_ok=True)
    unnamed = path.with_suffix(f".{os.getpid()}")
    # No time of writing in it: the same record has the same bytes.
    unnamed.write_bytes(gzip.compress(("\n".join(text) + "\n").encode(), mtime=0))
    os.replace(unnamed, path)
    partial_path_of(folder, task).unlink(missing_ok=True)


def read(path: Path) -> Record:
    """The record in a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return parse(file)


def read_partial(folder: Path, task: Task) -> Record | None:
    """What a run that did not end has left, if it left anything."""
    try:
        return parse(partial_path_of(folder, task).read_text().splitlines())
    except (OSError, ValueError):
        return None


def read_all(folder: Path) -> list[Record]:
    """All finished records below a folder."""
    return [read(path) for path in sorted(folder.rglob(f"*{ENDING}"))]
