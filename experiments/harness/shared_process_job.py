"""Start a run in a process that runs others before and after it, so that packages are imported once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from experiments.harness.method_interface import NotInstalledError
from experiments.harness.run_program import execute
from experiments.harness.run_record import lines
from experiments.harness.subprocess_job import NotInstalledHereError


@dataclass(frozen=True)
class SharedProcessJob:
    """Hold the job that the engine "shared" runs; see `SubprocessJob` for the request."""

    request: Mapping[str, Any]

    def __call__(self) -> str:
        """Execute the run and return the lines of its record."""
        try:
            with threadpool_limits(1):
                record = execute(dict(self.request))
        except NotInstalledError as error:
            raise NotInstalledHereError(str(error)) from error
        return "\n".join(lines(record))
