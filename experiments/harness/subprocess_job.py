"""Start a run in a process of its own, so that nothing of one run is left for the next.

This module imports the standard library only.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

NOT_INSTALLED = 3
"""Exit code of a run whose method is not installed. Nothing is recorded then."""

LONGEST_REASON = 500
"""Characters of an error message that are kept: enough to recognise it in a table."""


class NotInstalledHereError(RuntimeError):
    """Say that the method of a run is not installed. It comes back in place of a record."""


@dataclass(frozen=True)
class SubprocessJob:
    """Hold the job that an engine runs.

    Attributes:
        request: what the process is told: the task, the settings, and the paths to write to.
        environment: the variables that are set for the process.
    """

    request: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def __call__(self) -> str:
        """Run the process and return the lines of its record."""
        with tempfile.TemporaryDirectory(prefix="bmbo-run-") as scratch:
            result, log = Path(scratch) / "record", Path(scratch) / "log"
            paths = [str(ROOT), *(os.path.abspath(path) for path in self.request.get("paths", ()))]
            paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
            # SMAC iterates over sets, and their order depends on hashes. Without a fixed seed its runs do not repeat.
            fixed = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
            environment = {**os.environ, **self.environment, **fixed}
            request = json.dumps({**self.request, "result": str(result)})
            with log.open("wb") as output:
                # It has a folder of its own, because some peers write into the current folder. It stays in our process
                # group, so that it is killed together with us.
                code = subprocess.run(
                    [sys.executable, "-m", "experiments.harness.run_program", request],
                    cwd=scratch,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                ).returncode
            said = log.read_text(errors="replace").strip().splitlines()
            last = said[-1][:LONGEST_REASON] if said else "it said nothing"
            if code == NOT_INSTALLED:
                raise NotInstalledHereError(last)
            if code != 0 or not result.is_file():
                ended = f"signal {-code}" if code < 0 else f"exit code {code}"
                raise RuntimeError(f"the process ended with {ended}: {last}")
            return result.read_text()


def thread_limits(num_threads: int) -> dict[str, str]:
    """Return the environment variables that limit numerical libraries to a number of threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    limits: dict[str, str] = {name: str(num_threads) for name in names}
    # XLA takes the size of its thread pool on CPUs from this variable.
    limits["NPROC"] = str(num_threads)
    if num_threads == 1:
        limits["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return limits
