"""Fill in the options of commands, and read the records that they name."""

import argparse
from pathlib import Path

from experiments.harness import run_record as records
from experiments.harness.packed_records import read_packed
from experiments.harness.run_record import Record
from experiments.harness.run_settings import SYNCHRONOUS
from experiments.problems import suite
from experiments.problems.benchmark import NUM_STARTS

RECORDS = Path("experiments/records")
PACKED = Path("docs/results/records")
PAGE = Path("docs/results/comparison.md")


def folder_of(chosen: str, batch_size: int, schedule: str) -> str:
    """Return the name of the folder for the records of a suite."""
    return f"{chosen}-b{batch_size}" + ("" if schedule == SYNCHRONOUS else f"-{schedule}")


def fill(arguments: argparse.Namespace) -> None:
    """Give a value to every option that was left out: that of the suite, or that of a comparison without a suite."""
    chosen: str | None = arguments.suite
    half: str | None = getattr(arguments, "half", None)
    if half and chosen is None:
        raise ValueError(f"--half {half} is half of a suite; name it, such as --suite {suite.DEVELOPMENT}")
    size: int = arguments.batch_size or (suite.BATCH_SIZE if chosen else 5)
    schedule = getattr(arguments, "schedule", SYNCHRONOUS)
    own_folder = folder_of(chosen, size, schedule) if chosen else ""
    defaults: dict[str, object] = {
        "batch_size": size,
        "seeds": suite.NUM_SEEDS if chosen else 5,
        "num_starts": 0 if chosen else NUM_STARTS,
        "unjudged": chosen is not None,
        "out": PAGE.with_name(f"{'-'.join(filter(None, (own_folder, half)))}.md") if chosen else PAGE,
        "records": RECORDS / own_folder,
        "packed": PACKED / own_folder,
        "problems": suite.names_of(half, chosen) if chosen else None,
    }
    for name, value in defaults.items():
        if getattr(arguments, name, value) is None:
            setattr(arguments, name, value)


def all_records(arguments: argparse.Namespace) -> list[Record]:
    """Return the packed and the single records. If a run has both, the single one counts."""
    found = {record.task: record for record in read_packed(arguments.packed)}
    found |= {record.task: record for record in records.read_all(arguments.records)}
    return list(found.values())
