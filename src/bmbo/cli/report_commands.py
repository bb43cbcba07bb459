"""Carry out the commands that show a study in a browser: report."""

import argparse
from pathlib import Path

from bmbo.cli.arguments import ChosenStudy
from bmbo.cli.read_commands import check_storage_exists
from bmbo.cli.study_file import method_of
from bmbo.study import Study, load_study


def report(arguments: argparse.Namespace) -> int:
    """Write the report of a study, print where it is, and return the exit code."""
    output: Path | None = arguments.out
    written = _opened(arguments).report(output, model=arguments.model)
    print(f"report written to {written}")
    return 0


def _opened(arguments: argparse.Namespace) -> Study:
    """Return the study that the options name, with its method as far as it is known; create nothing."""
    chosen = ChosenStudy.of(arguments)
    check_storage_exists(chosen.storage)
    method = arguments.method or (None if chosen.file is None else chosen.file.method)
    made = None if method is None else method_of(method)
    return load_study(study_name=chosen.name, storage=chosen.storage, method=made)
