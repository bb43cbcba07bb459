"""Write and read records of runs: a line for the run, one for each evaluation, and one for the end.

While a run goes on, its lines are appended to a file with the ending .partial. A finished record is compressed and
written in one step, so every file with the ending .jsonl.gz is complete.
"""

import gzip
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from experiments.harness.run_settings import Task

FINISHED, CRASHED, TIMED_OUT = "finished", "crashed", "timed out"

ENDING = ".jsonl.gz"
PARTIAL = ".partial"


@dataclass(frozen=True)
class Evaluation:
    """Hold one evaluation of a run.

    Attributes:
        batch: 0 for the starts, then the number of the `ask`.
        level: the level of the evaluation.
        value: the value in the units and the direction of the objective; None for a failure.
        top: the value of the same configuration at the top, evaluated outside the cost; None if this is not asked for.
        wall: the wall seconds that the method took before this batch: the `tell` before it and its `ask`. It is the
            same for all evaluations of the batch.
        cpu: the CPU seconds, counted in the same way.
        recommended: the true value at the top of the recommendation after this batch; in the last row of a batch only.
        ended: the simulated time at which it ended, in units of cost; None in a synchronous run, where the batches say
            it.
    """

    batch: int
    level: int
    value: float | None
    top: float | None
    wall: float = 0.0
    cpu: float = 0.0
    recommended: float | None = None
    ended: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation in types of JSON. A time that is not there is left out, as in older records."""
        found = asdict(self)
        if self.ended is None:
            del found["ended"]
        return found


@dataclass(frozen=True)
class Record:
    """Hold all that is known about a finished run.

    Attributes:
        task: the method, the problem and the seed.
        header: the settings, costs, optimum and versions of the run.
        evaluations: the evaluations in their order.
        status: how the run ended.
        reason: why it ended so, if that needs words.
        seconds: the seconds of the whole run, evaluations included.
    """

    task: Task
    header: dict[str, Any]
    evaluations: tuple[Evaluation, ...]
    status: str = FINISHED
    reason: str = ""
    seconds: float = 0.0

    @property
    def end(self) -> dict[str, Any]:
        """Return the content of the last line."""
        return {"status": self.status, "reason": self.reason, "seconds": self.seconds}

    def same_course(self, other: "Record") -> bool:
        """Return whether two runs have the same evaluations and results. Their seconds may differ."""

        def course(record: "Record") -> list[Evaluation]:
            return [replace(evaluation, wall=0.0, cpu=0.0) for evaluation in record.evaluations]

        return course(self) == course(other)


def rounded(value: float | None, digits: int = 10) -> float | None:
    """Return a value rounded to some significant digits, or None if it is not finite. More digits only cost space."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def lines(record: Record) -> list[str]:
    """Return a record as lines of text."""
    rows = [json.dumps({"task": asdict(record.task), **record.header})]
    rows += [json.dumps(evaluation.to_json()) for evaluation in record.evaluations]
    return [*rows, json.dumps(record.end)]


def parse(text: Iterable[str]) -> Record:
    """Return the record in some lines. If they have no end, the record has the status crashed."""
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
    kept = [{name: row[name] for name in names if name in row} for row in rows[1:] if "status" not in row]
    return Record(task, header, tuple(Evaluation(**row) for row in kept), **end)


def path_of(folder: Path, task: Task) -> Path:
    """Return the path of a run's record."""
    return folder / f"{task.stem}{ENDING}"


def partial_path_of(folder: Path, task: Task) -> Path:
    """Return the path of a run's lines while it runs."""
    return folder / f"{task.stem}{PARTIAL}"


def write(folder: Path, task: Task, text: Sequence[str]) -> None:
    """Write a record in one step and remove its partial file."""
    path = path_of(folder, task)
    path.parent.mkdir(parents=True, exist_ok=True)
    unnamed = path.with_suffix(f".{os.getpid()}")
    # Without a time stamp, the same record gives the same bytes.
    unnamed.write_bytes(gzip.compress(("\n".join(text) + "\n").encode(), mtime=0))
    os.replace(unnamed, path)
    partial_path_of(folder, task).unlink(missing_ok=True)


def read(path: Path) -> Record:
    """Return the record in a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return parse(file)


def read_partial(folder: Path, task: Task) -> Record | None:
    """Return the record of a run that did not end, or None if it left no lines."""
    try:
        return parse(partial_path_of(folder, task).read_text().splitlines())
    except (OSError, ValueError):
        return None


def read_all(folder: Path) -> list[Record]:
    """Return all finished records below a folder."""
    return [read(path) for path in sorted(folder.rglob(f"*{ENDING}"))]
