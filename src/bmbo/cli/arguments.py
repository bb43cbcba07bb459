"""The words of the command line."""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from bmbo import __version__
from bmbo.cli.study_file import EXECUTORS, METHODS, StudyFile

DESCRIPTION = "Batch multi-fidelity Bayesian optimisation of anything that can be run from here."
EPILOG = """\
a first study:   bmbo run study.toml
later:           bmbo status study.toml;  bmbo best study.toml --json
on more nodes:   bmbo worker study.toml
Where no storage is given, the environment variable BMBO_STORAGE is used: a place for a URL with a password.
"""


class UsageError(ValueError):
    """Words on the command line that do not fit together."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and leaves the exit code to `main`."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


@dataclass(frozen=True)
class Target:
    """The study that a command is about; `file` where one was given."""

    name: str
    storage: str
    file: StudyFile | None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "Target":
        """From a study file, or from a storage and a name, which go before what a file says."""
        file = None if arguments.file is None else StudyFile.read(arguments.file)
        name = arguments.study or (file.name if file else None)
        storage = arguments.storage or (file.storage if file else None) or os.environ.get("BMBO_STORAGE")
        if name is None:
            raise UsageError("give a study file, or --storage URL and --study NAME")
        if storage is None and file is not None:
            # What a file says nothing of is kept where it is run.
            storage = f"sqlite:///{name.replace('/', '-')}.db"
        if storage is None:
            raise UsageError("give the study's storage: in its file, by --storage or in the variable BMBO_STORAGE")
        return cls(name, storage, file)


def _positive(kind: Callable[[str], int | float]) -> Callable[[str], int | float]:
    def number(text: str) -> int | float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"must be positive, got {text}")
        return value

    number.__name__ = "whole number" if kind is int else "number"
    return number


def parser(commands: dict[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """The whole command line; `commands` are what its words do."""
    whole = _Parser(prog="bmbo", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawTextHelpFormatter)
    whole.add_argument("--version", action="version", version=f"bmbo {__version__}")
    words = whole.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    def word(name: str, summary: str, *groups: Callable[[argparse.ArgumentParser], Any]) -> argparse.ArgumentParser:
        one = words.add_parser(name, help=summary, description=summary)
        one.set_defaults(command=commands[name])
        for group in groups:
            group(one)
        one.add_argument("--traceback", action="store_true", help="show where in the program an error came up")
        return one

    word("run", "run a study, or go on with it where it exists", _file, _options, _json)
    word("resume", "go on with a study that exists", _which, _objective, _options, _json)
    worker = word(
        "worker", "serve a study together with other workers, here or elsewhere", _which, _objective, _options
    )
    worker.add_argument("--no-plan", action="store_true", help="only run what other workers plan")
    worker.add_argument("--grace", type=_positive(float), metavar="S", help="seconds of silence until a worker is dead")
    word("status", "how far a study has come, and who works on it", _which, _json)
    word("best", "the best configuration at the top fidelity", _which, _json)
    trials = word("trials", "every trial", _which, _json)
    trials.add_argument("--state", help="only those in one state", choices=STATES)
    trials.add_argument("--level", type=int, help="only those of one level, 0 the roughest")
    export = word("export", "all trials as a table", _which)
    export.add_argument("--format", choices=("csv", "json"), help="by default as the name of the file says, else csv")
    export.add_argument("--output", type=Path, metavar="FILE", help="by default it is printed")
    return whole


STORAGE = "where the study is kept, such as sqlite:///study.db"
STATES = ("complete", "failed", "running", "waiting")


def _file(one: argparse.ArgumentParser) -> None:
    one.add_argument("file", type=Path, metavar="STUDY.toml", help="what to run")
    one.add_argument("--storage", metavar="URL", help=STORAGE)
    one.set_defaults(study=None, objective=None)


def _which(one: argparse.ArgumentParser) -> None:
    one.add_argument("file", type=Path, nargs="?", metavar="STUDY.toml", help="the study's file")
    one.add_argument("--storage", metavar="URL", help=STORAGE)
    one.add_argument("--study", metavar="NAME", help="its name there")


def _objective(one: argparse.ArgumentParser) -> None:
    one.add_argument("--objective", metavar="MODULE:FUNCTION", help="what to run instead of what the file says")


def _json(one: argparse.ArgumentParser) -> None:
    one.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _options(one: argparse.ArgumentParser) -> None:
    """What `[run]` in a study file says; what is given here goes before it."""
    group = one.add_argument_group("limits, and how to run; these go before what the study file says")
    number, whole = _positive(float), _positive(int)
    group.add_argument("--total-cost", type=number, metavar="C", help="end when the whole study has cost so much")
    group.add_argument("--n-trials", type=whole, metavar="N", help="end when the whole study has so many trials")
    group.add_argument("--timeout", type=number, metavar="S", help="end after so many seconds from now")
    group.add_argument("--batch-size", type=whole, metavar="Q", help="how many trials are chosen together")
    group.add_argument("--n-workers", type=whole, metavar="W", help="how many trials run at once")
    group.add_argument("--executor", choices=EXECUTORS, help="where trials run")
    group.add_argument("--asynchronous", action=argparse.BooleanOptionalAction, help="plan whenever a worker is free")
    group.add_argument("--trial-timeout", type=number, metavar="S", help="a trial that runs longer has failed")
    group.add_argument(
        "--catch", action=argparse.BooleanOptionalAction, help="go on after a failed trial (the default)"
    )
    group.add_argument("--method", choices=sorted(METHODS), help="how trials are chosen")
