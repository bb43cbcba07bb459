"""Carry out the commands that show a study in a browser: report, dashboard."""

import argparse
import webbrowser
from pathlib import Path

from bmbo.cli.arguments import ChosenStudy
from bmbo.cli.study_file import method_of
from bmbo.cli.text_output import print_message
from bmbo.dashboard import DashboardServer, check_libraries
from bmbo.ledger import Ledger
from bmbo.study import Study, load_study


def report(arguments: argparse.Namespace) -> int:
    """Write the report of a study, print where it is, and return the exit code."""
    output: Path | None = arguments.out
    written = _opened(arguments).report(output, model=arguments.model)
    print(f"report written to {written}")
    return 0


def dashboard(arguments: argparse.Namespace) -> int:
    """Serve the dashboard of a study until an interrupt, and return the exit code."""
    check_libraries()
    study = _opened(arguments)
    ledger = Ledger.load(ChosenStudy.of(arguments).storage, study.study_name)
    server = DashboardServer(ledger, study.policy, host=arguments.host, port=arguments.port, model=arguments.model)
    if not server.is_local:
        print_message("everyone who reaches this address can read the study and write notes; there is no password")
    print(f"the dashboard of {study.study_name} is at {server.address}; Ctrl-C ends it", flush=True)
    if arguments.open:
        webbrowser.open(server.address)
    try:
        server.serve()
    except KeyboardInterrupt:
        print("the dashboard has ended; the study goes on as it was")
    return 0


def _opened(arguments: argparse.Namespace) -> Study:
    """Return the study that the options name, with its method as far as it is known; create nothing."""
    chosen = ChosenStudy.of(arguments)
    method = arguments.method or (None if chosen.file is None else chosen.file.method)
    try:
        made = None if method is None else method_of(method)
    except ImportError:
        if arguments.method:
            raise
        # An extra is missing: the record can be shown all the same.
        made = None
    return load_study(study_name=chosen.name, storage=chosen.storage, method=made)
