"""Commands that run trials."""

import argparse
import json
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from types import FrameType
from typing import Any

from tqdm.auto import tqdm

from bmbo.cli.arguments import Target, UsageError
from bmbo.cli.command_objective import Command
from bmbo.cli.objective_lookup import load_function
from bmbo.cli.read_commands import must_exist
from bmbo.cli.study_file import METHODS, RunOptions
from bmbo.cli.text_tables import configuration, levels, text
from bmbo.cli.worker_without_planning import following_study
from bmbo.ledger import redacted
from bmbo.study import Study, create_study, load_study
from bmbo.study.planning import Limits
from bmbo.study.study import Objective

OK, INTERRUPTED, TERMINATED = 0, 130, 143
"""Exit codes: of signals, 128 and their number, as shells have it."""


def run(arguments: argparse.Namespace) -> int:
    """Runs a study from its file, or goes on with it."""
    return _drive(arguments, Target.of(arguments))


def resume(arguments: argparse.Namespace) -> int:
    """Goes on with a study that exists."""
    return _drive(arguments, Target.of(arguments), must_be_there=True)


def worker(arguments: argparse.Namespace) -> int:
    """Serves a study together with others, one trial at a time."""
    target = Target.of(arguments)
    study, objective, options = _prepared(arguments, target, must_be_there=target.file is None)
    # The file's number of workers is that of a single driver.
    options = replace(options, n_workers=arguments.n_workers or 1)
    if options.executor == "auto":
        # A process of its own: the worker can plan for the others while its trial runs.
        options = replace(options, executor="process")
    if arguments.no_plan:
        limits = Limits.checked(options.total_cost, options.n_trials, options.timeout)
        study = following_study(target.storage, target.name, limits)
    more: dict[str, Any] = {} if arguments.grace is None else {"grace": arguments.grace}
    with _shown_messages(), _interrupts() as interrupted:
        _optimize(study, objective, options, show_progress_bar=False, **more)
    print(f"bmbo: worker {os.getpid()} is done", file=sys.stderr)
    return INTERRUPTED if interrupted() else OK


def _drive(arguments: argparse.Namespace, target: Target, *, must_be_there: bool = False) -> int:
    study, objective, options = _prepared(arguments, target, must_be_there=must_be_there)
    if not arguments.json:
        print(_plan(study, options), flush=True)
    with _shown_messages(), _interrupts() as interrupted:
        _optimize(study, objective, options, show_progress_bar=sys.stderr.isatty() and not arguments.json)
    found = _summary(study, stopped=interrupted())
    print(json.dumps(found, indent=2) if arguments.json else _told(found, arguments, target))
    return INTERRUPTED if interrupted() else OK


def _prepared(
    arguments: argparse.Namespace, target: Target, *, must_be_there: bool
) -> tuple[Study, Objective, RunOptions]:
    """Everything that a run needs, with all that can be wrong found before the storage is written to."""
    objective = _objective(arguments, target)
    if must_be_there:
        must_exist(target.storage)
    if target.file is None:
        study = _opened(arguments, target, must_be_there=True)
        last = study.last_run
        options = _options(arguments, RunOptions() if last is None else RunOptions(**asdict(last)))
    else:
        options = _options(arguments, target.file.run)
        study = _opened(arguments, target, must_be_there=must_be_there)
    if isinstance(objective, Command):
        objective.check(study.problem.space.names)
    return study, objective, options


def _objective(arguments: argparse.Namespace, target: Target) -> Objective:
    named = arguments.objective or (None if target.file is None else target.file.objective)
    if named is None:
        raise UsageError("give --objective module:function, or a study file that has one")
    return named if isinstance(named, Command) else load_function(named)


def _options(arguments: argparse.Namespace, base: RunOptions) -> RunOptions:
    """What the command line says, and else what the study file says, or with what the study was last run."""
    given = {each.name: getattr(arguments, each.name, None) for each in fields(RunOptions)}
    options = replace(base, **{name: value for name, value in given.items() if value is not None})
    Limits.checked(options.total_cost, options.n_trials, options.timeout)
    return options


def _opened(arguments: argparse.Namespace, target: Target, *, must_be_there: bool) -> Study:
    file = target.file
    named = arguments.method or (None if file is None else file.method)
    method = None if named is None else METHODS[named]()
    if file is None or must_be_there:
        study = load_study(study_name=target.name, storage=target.storage, method=method)
        if file is None:
            return study
    # Also one that is there: the file and the storage must be about the same problem.
    return create_study(
        study_name=target.name,
        storage=target.storage,
        load_if_exists=True,
        direction=file.direction,
        space=file.space,
        fidelities=file.ladder.fidelities,
        seed=file.seed,
        method=method,
    )


def _optimize(study: Study, objective: Objective, options: RunOptions, *, show_progress_bar: bool, **more: Any) -> None:
    given = {each.name: getattr(options, each.name) for each in fields(options) if each.name != "catch"}
    catch = (Exception,) if options.catch else ()
    study.optimize(objective, **given, catch=catch, show_progress_bar=show_progress_bar, **more)


def _plan(study: Study, options: RunOptions) -> str:
    """What is about to be run, before anything is."""
    history = study.history
    known = f"goes on with {len(history.trials)} trials" if history.trials else "new"
    left = None if options.total_cost is None else max(0.0, options.total_cost - history.spent)
    lines = [f"study {study.study_name} in {study.storage}: {known}, {study.direction}"]
    lines.append(levels(study.problem.ladder, left))
    limits = {"total cost": options.total_cost, "trials": options.n_trials, "seconds from now": options.timeout}
    until = ", ".join(f"{text(limit)} {name}" for name, limit in limits.items() if limit is not None)
    spent = f" ({text(history.spent)} spent)" if history.spent else ""
    mode = "asynchronously" if options.asynchronous else f"batches of {options.batch_size}"
    lines.append(f"until {until}{spent}; {mode}, {options.n_workers} at a time")
    return "\n".join(lines)


def _summary(study: Study, *, stopped: bool) -> dict[str, Any]:
    history = study.history
    best = history.best
    return {
        "study": study.study_name,
        "storage": study.storage,
        "interrupted": stopped,
        "trials": {"complete": len(history.done), "failed": len(history.failed), "pending": len(history.pending)},
        "spent": history.spent,
        "best": None if best is None else {"number": best.number, "value": best.value, "params": study.best_params},
        # A user who stops a run does not wait for a fit.
        "recommendation": None if stopped else _recommended(study),
    }


def _recommended(study: Study) -> dict[str, Any] | None:
    try:
        found = study.recommendation()
    except (TypeError, ValueError):
        # A method without a surrogate, or nothing to learn from.
        return None
    return {"params": found.params, "value": found.value, "std": found.std}


def _told(found: dict[str, Any], arguments: argparse.Namespace, target: Target) -> str:
    counts = found["trials"]
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    state = "stopped" if found["interrupted"] else "finished"
    lines = [f"{state}: {counts['complete']} trials done{failed}, cost {text(found['spent'])}"]
    best, choice = found["best"], found["recommendation"]
    if best is None:
        lines.append("best: none at the top fidelity yet")
    else:
        lines.append(f"best: {text(best['value'])} (trial {best['number']}): {configuration(best['params'])}")
    if choice is not None:
        lines.append(f"recommended: {configuration(choice['params'])}")
        lines.append(f"  predicted {text(choice['value'])} ± {text(choice['std'])} at the top fidelity")
    where = f"--storage {shlex.quote(redacted(target.storage))} --study {shlex.quote(target.name)}"
    which = where if target.file is None else shlex.quote(str(target.file.path))
    if found["interrupted"]:
        objective = "" if arguments.objective is None else f" --objective {arguments.objective}"
        lines.append(f"go on:  bmbo resume {which}{objective}")
    lines.append(f"look:   bmbo status {which};  bmbo trials {which}")
    return "\n".join(lines)


@contextmanager
def _shown_messages() -> Generator[None, None, None]:
    """Lets a run's messages through to stderr, above the progress bar."""
    logger, handler = logging.getLogger("bmbo"), _AboveTheBar()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _AboveTheBar(logging.Handler):
    """Messages that do not tear a progress bar apart."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one message."""
        tqdm.write(f"bmbo: {record.getMessage()}", file=sys.stderr)


class Terminated(KeyboardInterrupt):
    """A request to end at once, as a batch system sends it: like a second Ctrl-C, what runs is queued again."""


@contextmanager
def _interrupts() -> Generator[Callable[[], bool], None, None]:
    """Says whether Ctrl-C came meanwhile: the run itself answers the first one by stopping, and ends as any other."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)

    def terminated(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise Terminated

    descriptor = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGTERM, terminated)
    seen = bytearray()
    try:
        yield lambda: signal.SIGINT in seen
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.set_wakeup_fd(descriptor)
        os.close(writer)
        seen += os.read(reader, 4096)
        os.close(reader)
