"""Carry out the commands that run trials: run, resume, worker."""

import argparse
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields, replace
from types import FrameType
from typing import Any

from bmbo.cli.arguments import ChosenStudy, UsageError
from bmbo.cli.command_objective import CommandObjective
from bmbo.cli.objective_lookup import load_function
from bmbo.cli.study_file import method_of
from bmbo.cli.text_output import ladder_table, print_message, prints_go_to_stderr
from bmbo.ledger import redacted
from bmbo.ledger.study_definition import direction_of
from bmbo.study import Study, create_study, load_study
from bmbo.study.limits import Limits
from bmbo.study.run_options import RunOptions
from bmbo.study.short_text import params_line, short_text
from bmbo.study.study import Objective

OK, INTERRUPTED, TERMINATED = 0, 130, 143
"""Exit codes; after a signal 128 plus its number, as in shells."""


def run(arguments: argparse.Namespace) -> int:
    """Run a study from its file, or continue it, and return the exit code."""
    return _drive(arguments, ChosenStudy.of(arguments))


def resume(arguments: argparse.Namespace) -> int:
    """Continue a study that exists and return the exit code."""
    return _drive(arguments, ChosenStudy.of(arguments), must_exist=True)


def worker(arguments: argparse.Namespace) -> int:
    """Run trials of a study together with other workers, by default one at a time, and return the exit code."""
    chosen = ChosenStudy.of(arguments)
    study, objective, options = _prepared(arguments, chosen, must_exist=chosen.file is None)
    # The number of workers in the file is meant for a single driver.
    options = replace(options, n_workers=arguments.n_workers or 1)
    if options.executor == "auto":
        # In another process, so that this process can plan for all workers while its trial runs.
        options = replace(options, executor="process")
    study.plans = not arguments.no_plan
    # Of many workers, each would say the same.
    study.answers = False
    more: dict[str, Any] = {} if arguments.grace is None else {"grace": arguments.grace}
    stopped = _optimize(study, objective, options, show_progress_bar=False, **more)
    print_message(f"worker {os.getpid()} is done")
    return INTERRUPTED if stopped else OK


def _drive(arguments: argparse.Namespace, chosen: ChosenStudy, *, must_exist: bool = False) -> int:
    """Run a study, print what happens, and return the exit code."""
    # Objectives, and modules that are imported, may print: with --json, nothing but JSON is on standard output.
    with prints_go_to_stderr() if arguments.json else nullcontext():
        study, objective, options = _prepared(arguments, chosen, must_exist=must_exist)
        if not arguments.json:
            print(_announcement(study, options), flush=True)
        # Printed with the report.
        study.answers = False
        stopped = _optimize(study, objective, options, show_progress_bar=sys.stderr.isatty() and not arguments.json)
        found = _summary(study, stopped=stopped)
    print(json.dumps(found, indent=2) if arguments.json else _report(found, arguments, chosen))
    return INTERRUPTED if stopped else OK


def _prepared(
    arguments: argparse.Namespace, chosen: ChosenStudy, *, must_exist: bool
) -> tuple[Study, Objective, RunOptions]:
    """Return the study, the objective and the options of a run; find mistakes before anything is written."""
    objective = _objective(arguments, chosen)
    if chosen.file is None:
        study = _opened(arguments, chosen, must_exist=True)
        last = study.last_run
        options = _options(arguments, last or RunOptions())
    else:
        options = _options(arguments, chosen.file.run)
        study = _opened(arguments, chosen, must_exist=must_exist)
    if isinstance(objective, CommandObjective):
        objective.check(study.problem.space.names)
        if study.problem.ladder.top and not objective.knows_its_level:
            print_message(
                "warning: the command uses neither {fidelity} nor {level}, so that every fidelity runs the same; is "
                "one of them missing?"
            )
    return study, objective, options


def _objective(arguments: argparse.Namespace, chosen: ChosenStudy) -> Objective:
    named = arguments.objective or (None if chosen.file is None else chosen.file.objective)
    if named is None:
        raise UsageError("give --objective module:function, or a study file that has one")
    return named if isinstance(named, CommandObjective) else load_function(named)


def _options(arguments: argparse.Namespace, base: RunOptions) -> RunOptions:
    """Return the options of the command line; take missing ones from the study file or the last run."""
    given = {each.name: getattr(arguments, each.name, None) for each in fields(RunOptions)}
    options = replace(base, **{name: value for name, value in given.items() if value is not None})
    Limits.checked(options.total_cost, options.n_trials, options.timeout)
    return options


def _opened(arguments: argparse.Namespace, chosen: ChosenStudy, *, must_exist: bool) -> Study:
    file = chosen.file
    named = arguments.method or (None if file is None else file.method)
    method = None if named is None else method_of(named)
    rule = arguments.feasible or (None if file is None else file.feasible)
    feasible = None if rule is None else load_function(rule)
    if file is None or must_exist:
        study = load_study(study_name=chosen.name, storage=chosen.storage, method=method, feasible=feasible)
        if file is None:
            return study
    # Also for a study that exists, because the file and the storage must have the same problem.
    return create_study(
        study_name=chosen.name,
        storage=chosen.storage,
        load_if_exists=True,
        direction=file.direction,
        directions=file.directions,
        reference_point=file.reference_point,
        space=file.space,
        fidelities=file.ladder.fidelities,
        seed=file.seed,
        method=method,
        continues=file.continues,
        constraints=file.constraints,
        feasible=feasible,
        early_stopping=file.early_stopping,
        noisy=file.noisy,
    )


def _optimize(study: Study, objective: Objective, options: RunOptions, *, show_progress_bar: bool, **more: Any) -> bool:
    """Run a study, and return whether Ctrl-C stopped it; raise Terminated after a request to end at once."""
    given = {each.name: getattr(options, each.name) for each in fields(options) if each.name != "catch"}
    catch = (Exception, SystemExit) if options.catch else ()
    with _ends_on_request():
        try:
            study.optimize(objective, **given, catch=catch, show_progress_bar=show_progress_bar, **more)
        except SystemExit as end:
            raise RuntimeError(f"an objective called sys.exit({end.code!r}), which ended the run") from end
        except Terminated:
            raise
        except KeyboardInterrupt:
            return True
    return False


def _announcement(study: Study, options: RunOptions) -> str:
    """Return the text that is printed before a run."""
    history = study.history
    known = f"goes on with {len(history.trials)} trials" if history.trials else "new"
    left = None if options.total_cost is None else max(0.0, options.total_cost - history.spent)
    lines = [f"study {study.study_name} in {study.storage}: {known}, {direction_of(study.problem)}"]
    lines.append(ladder_table(study.problem.ladder, left))
    limits = {"total cost": options.total_cost, "trials": options.n_trials, "seconds from now": options.timeout}
    until = ", ".join(f"{short_text(limit)} {name}" for name, limit in limits.items() if limit is not None)
    spent = f" ({short_text(history.spent)} spent)" if history.spent else ""
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
        "best": None if best is None else _observed(study, best.number),
        **(_front(study) if study.problem.objectives else {}),
        # A user who stops a run should not have to wait for a fit.
        "recommendation": None if stopped else _recommended(study),
        "answer": None if stopped else study.answer(),
    }


def _front(study: Study) -> dict[str, Any]:
    trials = study.best_trials
    front = [{"number": trial.number, "values": trial.values, "params": trial.params} for trial in trials]
    return {"front": front, "hypervolume": study.hypervolume()}


def _observed(study: Study, number: int) -> dict[str, Any]:
    trial = study.trials[number]
    return {"number": number, "value": trial.value, "params": trial.params}


def _recommended(study: Study) -> dict[str, Any] | None:
    try:
        found = study.recommendation()
    except (TypeError, ValueError):
        # The method has no surrogate, or there is no value to fit it to.
        return None
    return asdict(found)


def _report(found: dict[str, Any], arguments: argparse.Namespace, chosen: ChosenStudy) -> str:
    """Return the text that is printed after a run."""
    counts = found["trials"]
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    state = "stopped" if found["interrupted"] else "finished"
    lines = [f"{state}: {counts['complete']} trials done{failed}, cost {short_text(found['spent'])}"]
    best = found["best"]
    if found["answer"] is None and "front" in found:
        lines.append(f"front: {len(found['front'])} trials; bmbo best shows them")
    elif found["answer"] is not None:
        lines.append(found["answer"])
    elif best is None:
        lines.append("best: none at the top fidelity yet")
    else:
        lines.append(f"best: {short_text(best['value'])} (trial {best['number']}): {params_line(best['params'])}")
    where = f"--storage {shlex.quote(redacted(chosen.storage))} --study {shlex.quote(chosen.name)}"
    which = where if chosen.file is None else shlex.quote(str(chosen.file.path))
    if found["interrupted"]:
        objective = "" if arguments.objective is None else f" --objective {arguments.objective}"
        lines.append(f"go on:  bmbo resume {which}{objective}")
    lines.append(f"look:   bmbo status {which};  bmbo trials {which};  bmbo report {which}")
    return "\n".join(lines)


class Terminated(KeyboardInterrupt):
    """Report a request to end at once, as a batch system sends it.

    As after a second Ctrl-C, the trials that run are queued again.
    """


@contextmanager
def _ends_on_request() -> Generator[None, None, None]:
    """Raise Terminated inside this context when the signal TERM arrives; only a main thread can listen."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminated(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise Terminated

    handler = signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
