"""Execute one run and write its record. `SubprocessJob` starts this module as a program of its own.

Lines are written as the run goes on, and the whole record at the end.
"""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.harness import registry
from experiments.harness.asynchronous_run import AsynchronousRun
from experiments.harness.method_interface import NotInstalledError
from experiments.harness.run_record import CRASHED, FINISHED, Evaluation, Record, lines
from experiments.harness.run_settings import ASYNCHRONOUS, Settings, Task
from experiments.harness.single_run import Run, header
from experiments.harness.subprocess_job import LONGEST_REASON, NOT_INSTALLED


def execute(request: dict[str, Any]) -> Record:
    """Execute the requested run and return its record. Raise `NotInstalledError` if its method cannot run here."""
    task, settings = Task(**request["task"]), Settings(**request["settings"])
    entry = registry.methods(request["plugins"])[task.method]
    benchmark = registry.problems(request["plugins"])[task.problem]()
    head = header(benchmark, entry, settings)
    started, evaluations = time.monotonic(), list[Evaluation]()
    status, reason = FINISHED, ""
    partial = Path(request["partial"])
    partial.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("w") as file:

        def emit(evaluation: Evaluation) -> None:
            evaluations.append(evaluation)
            print(json.dumps(evaluation.to_json()), file=file, flush=True)

        print(json.dumps({"task": asdict(task), **head}), file=file, flush=True)
        try:
            run = AsynchronousRun if settings.schedule == ASYNCHRONOUS else Run
            reason = run(benchmark, entry, settings, emit).execute(task.seed)
        except NotInstalledError:
            partial.unlink()
            raise
        # An error of a method is a result too, and belongs into the record.
        except Exception as error:
            text = " ".join(str(error).split())
            status, reason = CRASHED, f"{type(error).__name__}: {text}"[:LONGEST_REASON]
    seconds = round(time.monotonic() - started, 2)
    return Record(task, head, tuple(evaluations), status, reason, seconds)


def main(request: dict[str, Any]) -> int:
    """Execute the requested run, write its record and return the exit code."""
    try:
        record = execute(request)
    except NotInstalledError as error:
        print(error)
        return NOT_INSTALLED
    Path(request["result"]).write_text("\n".join(lines(record)))
    return 0


if __name__ == "__main__":
    code = main(json.loads(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit, which would wait for threads that a peer has left running.
    os._exit(code)
