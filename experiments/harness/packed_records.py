"""Pack the records of runs into one small table for each problem, which can be committed, and unpack them again.

A packed table is a compressed CSV file. Each run is a line "# {...}" with the header and the end of its record, and one
row for each evaluation. Costs are not stored, because the levels determine them.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.harness import run_record as records
from experiments.harness.run_record import Evaluation, Record
from experiments.harness.run_settings import Task

ENDING = ".csv.gz"

COLUMNS = tuple(Evaluation.__dataclass_fields__)
"""The columns. The last one, `ended`, is left out of the rows of synchronous runs."""


def pack(found: Iterable[Record], folder: Path) -> list[Path]:
    """Write a table for each problem and return the paths. Records that a table already holds stay in it."""
    kept = {record.task: record for record in read_packed(folder)} | {record.task: record for record in found}
    problems = sorted({task.problem for task in kept})
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for problem in problems:
        tasks = sorted((task for task in kept if task.problem == problem), key=lambda t: (t.method, t.seed, t.repeat))
        text = "".join(_packed(kept[task]) for task in tasks)
        paths.append(folder / f"{problem}{ENDING}")
        # Without a time stamp, the same records give the same bytes.
        paths[-1].write_bytes(gzip.compress(text.encode(), mtime=0))
    return paths


def _packed(record: Record) -> str:
    said = {"task": asdict(record.task), "header": record.header, "end": record.end}
    text = io.StringIO()
    text.write(f"# {json.dumps(said)}\n")
    writer = csv.writer(text, lineterminator="\n")
    for evaluation in record.evaluations:
        writer.writerow(["" if value is None else value for value in evaluation.to_json().values()])
    return text.getvalue()


def read_packed(folder: Path) -> list[Record]:
    """Return all records of the tables in a folder."""
    found: list[Record] = []
    for path in sorted(folder.glob(f"*{ENDING}")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found += _unpacked(file)
    return found


def _unpacked(rows: Iterable[str]) -> Iterator[Record]:
    said: dict[str, Any] | None = None
    held: list[str] = []
    for row in rows:
        if not row.startswith("# "):
            held.append(row)
            continue
        if said is not None:
            yield _record(said, held)
        said, held = json.loads(row[2:]), []
    if said is not None:
        yield _record(said, held)


def _record(said: dict[str, Any], rows: list[str]) -> Record:
    evaluations = [_evaluation(dict(zip(COLUMNS, row, strict=False))) for row in csv.reader(rows)]
    return Record(Task(**said["task"]), said["header"], tuple(evaluations), **said["end"])


def _evaluation(row: dict[str, str]) -> Evaluation:
    numbers = {name: None if value == "" else float(value) for name, value in row.items()}
    return Evaluation(
        batch=int(row["batch"]),
        level=int(row["level"]),
        value=numbers["value"],
        top=numbers["top"],
        wall=float(row["wall"]),
        cpu=float(row["cpu"]),
        recommended=numbers["recommended"],
        ended=numbers.get("ended"),
    )


def unpack(folder: Path, target: Path) -> int:
    """Write packed records as single files where these are missing, and return how many were written."""
    missing = [record for record in read_packed(folder) if not records.path_of(target, record.task).is_file()]
    for record in missing:
        records.write(target, record.task, records.lines(record))
    return len(missing)
