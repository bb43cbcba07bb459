"""The program of one run, started by `spawn`: writes its lines as it goes and the whole record in the end."""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.harness import registry
from experiments.harness.contract import NotInstalledError
from experiments.harness.run import Run, header
from experiments.harness.run_record import CRASHED, FINISHED, Evaluation, Record, lines
from experiments.harness.settings import Settings, Task
from experiments.harness.subprocess_job import LONGEST_REASON, NOT_INSTALLED


def main(request: dict[str, Any]) -> int:
    """Runs what was asked for."""
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
            print(json.dumps(asdict(evaluation)), file=file, flush=True)

        print(json.dumps({"task": asdict(task), **head}), file=file, flush=True)
        try:
            reason = Run(benchmark, entry, settings, emit).play(task.seed)
        except NotInstalledError as error:
            print(error)
            partial.unlink()
            return NOT_INSTALLED
        # Whatever a method raises is a fact about the method.
        except Exception as error:
            text = " ".join(str(error).split())
            status, reason = CRASHED, f"{type(error).__name__}: {text}"[:LONGEST_REASON]
    seconds = round(time.monotonic() - started, 2)
    record = Record(task, head, tuple(evaluations), status, reason, seconds)
    Path(request["result"]).write_text("\n".join(lines(record)))
    return 0


if __name__ == "__main__":
    code = main(json.loads(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: threads that a peer has left running must not keep the process.
    os._exit(code)
