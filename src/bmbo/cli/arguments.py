"""Define the commands and options of the command line, and find the study that they are about."""

import argparse
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, get_args

from bmbo import __version__
from bmbo.cli.study_file import METHOD_NAMES, StudyFile
from bmbo.cli.text_output import PROGRAM
from bmbo.ledger import redacted, study_names
from bmbo.ledger.ledger_entries import State
from bmbo.problem.number_checks import Number, positive_number, whole_number
from bmbo.study.run_options import RUN_CHOICES, least_of, run_option_kinds

STORAGE_HELP = "where the study is kept, such as sqlite:///study.db"

NO_FILE = re.compile(r"[/\\?#:*\"<>|\x00-\x1f]")
"""Characters that names of files cannot have, or that end the name of a file in a URL."""

STATES: tuple[State, ...] = tuple(sorted(get_args(State)))

RUN_OPTION_HELP: Mapping[str, tuple[str | None, str]] = {
    "total_cost": ("C", "end when the whole study has cost so much"),
    "n_trials": ("N", "end when the whole study has so many trials"),
    "timeout": ("S", "end after so many seconds from now"),
    "batch_size": ("Q", "how many trials are chosen together"),
    "n_workers": ("W", "how many trials run at once"),
    "executor": (None, "where trials run"),
    "asynchronous": (None, "plan whenever a worker is free"),
    "trial_timeout": ("S", "a trial that runs longer has failed"),
    "catch": (None, "go on after a failed trial (the default)"),
    "max_failures": ("N", "end when the first N trials of this run all failed; 0 for never, 5 by default"),
    "patience": ("S", "how long to wait for a storage that is away, 600 s by default"),
}
"""The help text of each run option of the command line, and a letter for its value; `RunOptions` has the types."""

DESCRIPTION = "Batch multi-fidelity Bayesian optimisation of anything that can be run from here."
EPILOG = """\
a first study:   bmbo run study.toml
later:           bmbo status study.toml;  bmbo best study.toml --json
after failures:  bmbo retry study.toml --refund;  bmbo resume study.toml
on more nodes:   bmbo worker study.toml
Where no storage is given, the environment variable BMBO_STORAGE is used: a place for a URL with a password.
"""


class UsageError(ValueError):
    """Report options on the command line that are wrong or do not fit together."""


class _Parser(argparse.ArgumentParser):
    """Raise UsageError with one sentence, and leave the exit code to `main`."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


@dataclass(frozen=True)
class ChosenStudy:
    """Hold the name and the storage of the study that a command is about, and its file if one was given."""

    name: str
    # Not shown, because it may contain a password.
    storage: str = field(repr=False)
    file: StudyFile | None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "ChosenStudy":
        """Return the study that the options name; they take precedence over the study file.

        Raises:
            UsageError: The options and the file do not say which study is meant, or where it is stored.
        """
        path: Path | None = arguments.file
        # A database or a journal in the place of the file is what it looks like.
        named = {".db": f"sqlite:///{path}", ".sqlite": f"sqlite:///{path}", ".journal": str(path), ".log": str(path)}
        in_place = None if path is None else named.get(path.suffix)
        file = None if path is None or in_place is not None else StudyFile.read(path)
        given: str | None = arguments.study or (file.name if file else None)
        storage = arguments.storage or in_place or (file.storage if file else None) or os.environ.get("BMBO_STORAGE")
        if given is None and storage is None:
            raise UsageError("give a study file, or --storage URL and --study NAME")
        name = given or cls._only_name(storage or "")
        if storage is None and file is not None:
            # A file without a storage: the study is kept in the working directory.
            storage = f"sqlite:///{NO_FILE.sub('-', name)}.db"
        if storage is None:
            raise UsageError("give the study's storage: in its file, by --storage or in the variable BMBO_STORAGE")
        return cls(name, storage, file)

    @staticmethod
    def _only_name(storage: str) -> str:
        """Return the name of the only study in a storage; raise UsageError if there is none, or several."""
        names = study_names(storage)
        if len(names) == 1:
            return names[0]
        where = redacted(storage)
        if not names:
            raise UsageError(f"there is no study in {where}; bmbo run STUDY.toml makes one")
        raise UsageError(f"give --study NAME: {where} has the studies {', '.join(names)}")


def _positive(kind: Callable[[str], Number], at_least: int = 1) -> Callable[[str], Number]:
    """Return a converter of text to positive numbers, or to whole numbers of at least `at_least`, for argparse."""

    def number(text: str) -> Number:
        value = kind(text)
        try:
            if kind is int:
                return whole_number("the value", value, at_least=at_least)
            positive_number("the value", value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return value

    # The name appears in argparse's message about text that is no number.
    number.__name__ = "whole number" if kind is int else "number"
    return number


def parser(commands: dict[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; `commands` has the function of each command."""
    whole = _Parser(prog=PROGRAM, description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawTextHelpFormatter)
    whole.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    subparsers = whole.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, summary: str, *groups: Callable[[argparse.ArgumentParser], Any]) -> argparse.ArgumentParser:
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        subparser.set_defaults(command=commands[name])
        for group in groups:
            group(subparser)
        subparser.add_argument("--traceback", action="store_true", help="show where in the program an error came up")
        return subparser

    command("run", "run a study, or go on with it where it exists", _file, _run_options, _json)
    command("resume", "go on with a study that exists", _file_or_name, _objective, _run_options, _json)
    worker = command(
        "worker",
        "serve a study together with other workers, here or elsewhere",
        _file_or_name,
        _objective,
        _run_options,
    )
    worker.add_argument("--no-plan", action="store_true", help="only run what other workers plan")
    worker.add_argument("--grace", type=_positive(float), metavar="S", help="seconds of silence until a worker is dead")
    add = command("add", "add results from a table, such as bmbo export writes", _file_or_name, _json)
    add.add_argument("--table", type=Path, required=True, metavar="FILE", help="a .csv or .json file")
    learn = command("learn", "begin with the best configurations of an older study", _file_or_name, _json)
    learn.add_argument("--from-study", required=True, metavar="NAME", help="the name of the older study")
    learn.add_argument("--from-storage", metavar="URL", help="where it is kept; by default in the same storage")
    learn.add_argument("--number", type=_positive(int), metavar="N", help="how many configurations")
    retry = command("retry", "queue failed trials again", _file_or_name, _chosen_trials, _json)
    retry.set_defaults(failed=True)
    drop = command("drop", "take trials out of what the method knows", _file_or_name, _chosen_trials, _json)
    drop.add_argument("--failed", action="store_true", help="all trials that failed")
    recover = command("recover", "add the results that a run could not write", _file_or_name, _json)
    recover.add_argument("--results", type=Path, metavar="FILE", required=True, help="the file that the run named")
    delete = command("delete", "delete a study with all its trials", _file_or_name)
    delete.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    command("status", "how far a study has come, and who works on it", _file_or_name, _json)
    command("best", "the best configuration at the top fidelity", _file_or_name, _json)
    trials = command("trials", "every trial", _file_or_name, _json)
    trials.add_argument("--state", help="only those in one state", choices=STATES)
    trials.add_argument("--level", type=int, help="only those of one level, 0 the roughest")
    export = command("export", "all trials as a table", _file_or_name)
    export.add_argument("--format", choices=("csv", "json"), help="by default from the name of the file, else csv")
    export.add_argument("--output", type=Path, metavar="FILE", help="by default it is printed")
    report = command("report", "write a page with figures about a study", _file_or_name, _shown_method)
    report.add_argument("--out", type=Path, metavar="FILE", help="by default the study's name and .html")
    report.add_argument("--no-model", dest="model", action="store_false", help="leave out what needs a model")
    shown = command("dashboard", "show a study in the browser with optuna-dashboard", _file_or_name, _shown_method)
    shown.add_argument("--host", default="127.0.0.1", help="the address to listen at; by default this machine alone")
    shown.add_argument("--port", type=int, default=8080, metavar="N", help="8080 by default; 0 for a free one")
    shown.add_argument("--open", action="store_true", help="open it in the browser of this machine")
    shown.add_argument("--no-model", dest="model", action="store_false", help="leave out figures that need a model")
    return whole


def _file(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument("file", type=Path, metavar="STUDY.toml", help="what to run")
    subparser.add_argument("--storage", metavar="URL", help=STORAGE_HELP)
    subparser.set_defaults(study=None, objective=None, feasible=None)


def _file_or_name(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument("file", type=Path, nargs="?", metavar="STUDY.toml", help="the study's file")
    subparser.add_argument("--storage", metavar="URL", help=STORAGE_HELP)
    subparser.add_argument("--study", metavar="NAME", help="its name there")


def _objective(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument("--objective", metavar="MODULE:FUNCTION", help="what to run instead of what the file says")
    subparser.add_argument("--feasible", metavar="MODULE:FUNCTION", help="what may be run, for a study made with that")


def _chosen_trials(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument("--trials", type=int, nargs="+", metavar="N", help="their numbers")
    subparser.add_argument("--refund", action="store_true", help="give back what they cost")


def _shown_method(subparser: argparse.ArgumentParser) -> None:
    summary = "the method whose model is shown; by default that of its file, else that of the study"
    subparser.add_argument("--method", choices=sorted(METHOD_NAMES), help=summary)


def _json(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _run_options(subparser: argparse.ArgumentParser) -> None:
    """Add the options that can also stand in `[run]` of a study file, and the method."""
    group = subparser.add_argument_group("limits and other run options; they take precedence over the study file")
    kinds = run_option_kinds()
    for name, (metavar, explanation) in RUN_OPTION_HELP.items():
        flag = f"--{name.replace('_', '-')}"
        if bool in kinds[name]:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=explanation)
        elif name in RUN_CHOICES:
            group.add_argument(flag, choices=RUN_CHOICES[name], help=explanation)
        else:
            number = _positive(float) if float in kinds[name] else _positive(int, least_of(name))
            group.add_argument(flag, type=number, metavar=metavar, help=explanation)
    group.add_argument("--method", choices=sorted(METHOD_NAMES), help="how trials are chosen")
