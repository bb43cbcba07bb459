"""Add the commands that write pages on one question each: what levels cost or save, and what workers gain."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.command_options import PACKED, PAGE, RECORDS, all_records, fill, folder_of
from experiments.harness import run_record as records
from experiments.harness.packed_records import read_packed
from experiments.harness.run_record import Record
from experiments.harness.run_settings import ASYNCHRONOUS, SYNCHRONOUS
from experiments.problems import reference_values, suite
from experiments.reporting import judgement_page, wall_time, wall_time_page


def add_parsers(commands: Any) -> None:
    """Add the parsers of the commands."""
    judging = commands.add_parser("judgement", help="write the page on what lower levels cost or save a method")
    judging.add_argument("--method", default="screening", help="the method that is compared with itself")
    judging.add_argument("--out", type=Path, default=PAGE.with_name("judgement.md"), help="the page")
    judging.add_argument("--records", type=Path, help=f"folder of the records; default one below {RECORDS}")
    judging.add_argument("--packed", type=Path, help=f"folder of the packed tables; default one below {PACKED}")
    timing = commands.add_parser("times", help="write the page on workers at equal cost and at equal wall time")
    timing.add_argument("--suite", choices=list(suite.SUITES), default=suite.DEVELOPMENT, help="whose records")
    timing.add_argument("--half", choices=suite.HALVES, help="use one half of the problems of a suite")
    timing.add_argument("--method", default="screening", help="the method that is compared with itself")
    timing.add_argument("--workers", type=int, default=5, help="the batch size of the runs with several workers")
    timing.add_argument("--out", type=Path, default=PAGE.with_name("wall_time.md"), help="the page")
    timing.add_argument("--records", type=Path, default=RECORDS, help="folder of the folders of records")
    timing.add_argument("--packed", type=Path, default=PACKED, help="folder of the folders of packed tables")


def _judgement(arguments: argparse.Namespace) -> int:
    arguments.suite, arguments.batch_size = suite.JUDGEMENT, None
    fill(arguments)
    command = f"python -m experiments judgement --method {arguments.method}"
    judgement_page.write_page(all_records(arguments), arguments.method, arguments.out, command=command)
    print(arguments.out)
    return 0


def _times(arguments: argparse.Namespace) -> int:
    names = set(suite.names_of(arguments.half, arguments.suite))
    folders = {
        wall_time_page.SINGLE: folder_of(arguments.suite, 1, SYNCHRONOUS),
        f"batches of {arguments.workers}": folder_of(arguments.suite, arguments.workers, SYNCHRONOUS),
        f"{arguments.workers} workers, no waiting": folder_of(arguments.suite, arguments.workers, ASYNCHRONOUS),
    }
    found = {name: _records_below(arguments, folder, names) for name, folder in folders.items()}
    runs = wall_time.collect(found, reference_values.read(), arguments.method)
    half = f" --half {arguments.half}" if arguments.half else ""
    command = (
        f"python -m experiments times --suite {arguments.suite}{half} --method {arguments.method} "
        f"--workers {arguments.workers}"
    )
    wall_time_page.write_page(runs, arguments.method, arguments.workers, arguments.out, command=command)
    print(arguments.out)
    return 0


def _records_below(arguments: argparse.Namespace, folder: str, names: set[str]) -> list[Record]:
    """Return the packed and the single records of some problems. If a run has both, the single one counts."""
    found = {record.task: record for record in read_packed(arguments.packed / folder)}
    found |= {record.task: record for record in records.read_all(arguments.records / folder)}
    return [record for task, record in found.items() if task.problem in names]


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {"judgement": _judgement, "times": _times}
