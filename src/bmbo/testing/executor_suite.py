"""Check what every executor must do.

Jobs are written inside functions, so that they are pickled by value and a worker need not import this package. These
functions have `no_type_check`, because a job that is wrapped by a type checker at run time cannot be pickled.
"""

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import no_type_check

from bmbo.protocols import Executor, Finished
from bmbo.testing.require import require

PATIENCE = 60.0
"""Seconds for what should take one second: a cluster may have to start a process first, on a busy machine."""

TIMEOUT = 1.0
"""Seconds after which a hanging job is stopped; a job that does not hang takes almost no time."""

Job = Callable[[], object]
MakeExecutor = Callable[[int, float | None], Executor]
"""Map a number of workers and a timeout in seconds to a new executor."""


def check_executor(make: MakeExecutor, *, isolated: bool, same_machine: bool = True) -> None:
    """Raise AssertionError unless an executor runs jobs as bmbo expects.

    With `isolated`, some jobs crash, some hang, and some have a result that cannot be returned.

    Args:
        make: makes an executor; called for one worker without a timeout, and with `isolated` for two, and for a
            timeout.
        isolated: whether each job runs in its own process.
        same_machine: whether jobs see this machine's temporary folder. Only then can it be checked that jobs run at the
            same time, and that the processes a job has started end with it.

    Example:
        >>> check_executor(lambda workers, timeout: MyExecutor(workers, timeout), isolated=True)
    """
    executor = make(2 if isolated else 1, None)
    try:
        require(isinstance(executor, Executor), f"{executor!r} has not all methods of bmbo.protocols.Executor")
        wanted = 2 if isolated else 1
        require(executor.num_workers == wanted, f"num_workers is {executor.num_workers}, not the {wanted} asked for")
        require(executor.collect(0.0) == [], "something has finished before anything was submitted")
        _check_values(executor)
        _check_exceptions(executor)
        if isolated:
            _check_crashes(executor)
            _check_results_that_stay(executor)
        if isolated and same_machine:
            _check_at_once(executor)
        _check_values(executor)
    finally:
        executor.close()
    executor.close()
    if isolated:
        _check_timeout(make, same_machine)
    if isolated and same_machine:
        _check_close(make)


def _outcomes(executor: Executor, jobs: Mapping[int, Job]) -> dict[int, Finished]:
    """Return the outcomes of jobs by number; as many run at once as there are workers."""
    waiting, finished = list(jobs.items()), dict[int, Finished]()
    until = time.monotonic() + PATIENCE
    running = 0
    while len(finished) < len(jobs):
        require(time.monotonic() < until, f"of jobs {list(jobs)} only {list(finished)} finished in {PATIENCE:g} s")
        while waiting and running < executor.num_workers:
            executor.submit(*waiting.pop(0))
            running += 1
        for each in executor.collect(1.0):
            require(each.number in jobs, f"job {each.number} was not submitted")
            require(each.number not in finished, f"job {each.number} finished twice")
            require(math.isfinite(each.seconds) and each.seconds >= 0, f"job {each.number} took {each.seconds} s")
            finished[each.number] = each
            running -= 1
    require(executor.collect(0.0) == [], f"after jobs {list(jobs)} something finished that was not submitted")
    return finished


@no_type_check
def _check_values(executor: Executor) -> None:
    """Check that numbers are those of the caller, in any order, and that values come back unchanged."""

    def returning(value: object) -> Job:
        return lambda: value

    values: dict[int, object] = {7: 0.5, 3: None, 11: "text", 0: (1, [2.0]), 5: -3}
    finished = _outcomes(executor, {number: returning(value) for number, value in values.items()})
    for number, value in values.items():
        got = finished[number]
        require(got.error is None and got.value == value, f"a job that returned {value!r} gave {got}")
    nan = _outcomes(executor, {1: returning(math.nan)})[1]
    require(isinstance(nan.value, float) and math.isnan(nan.value), f"a job that returned NaN gave {nan}")


@no_type_check
def _check_exceptions(executor: Executor) -> None:
    class NeedsTwoArguments(Exception):  # noqa: N818 - an exception that pickle cannot make again
        def __init__(self, one: str, two: str) -> None:
            super().__init__(f"{one} {two}")

    def plain() -> None:
        raise ValueError("a first line\nand a second")

    def awkward() -> None:
        raise NeedsTwoArguments("one", "two")

    def leaving() -> None:
        sys.exit("enough")

    jobs = {1: plain, 2: awkward, 3: leaving, 4: lambda: 4}
    wanted = {
        1: "ValueError: a first line and a second",
        2: "NeedsTwoArguments: one two",
        3: "SystemExit: enough",
        4: None,
    }
    finished = _outcomes(executor, jobs)
    for number, error in wanted.items():
        got = finished[number]
        require(got.error == error, f"the error should be {error!r}, one line of type and text; got {got}")
        require(not got.lost, f"a job that ended by itself is not lost: {got}")
        require(error is None or got.value is None, f"a failed job has no value: {got}")
    carried = finished[1].exception
    require(isinstance(carried, ValueError), f"the exception should be carried, got {carried!r}")


def _check_crashes(executor: Executor) -> None:
    """Check that a worker that dies fails its own job only."""
    jobs: dict[int, Job] = {
        1: lambda: os.kill(os.getpid(), signal.SIGKILL),
        2: lambda: 2,
        3: lambda: os._exit(3),
        4: lambda: time.sleep(0.2),
        5: lambda: 5,
    }
    finished = _outcomes(executor, jobs)
    for number in (1, 3):
        got = finished[number]
        require(bool(got.error) and got.value is None, f"a job whose process died should have an error, got {got}")
        require(not got.lost, f"a job that killed its process must not be run again: {got}")
    for number, value in ((2, 2), (4, None), (5, 5)):
        got = finished[number]
        require(got.error is None and got.value == value, f"a job beside one that crashed should return, got {got}")


def _check_results_that_stay(executor: Executor) -> None:
    got = _outcomes(executor, {1: lambda: (number for number in (1, 2))})[1]
    require(bool(got.error) and got.value is None, f"a result that cannot be pickled should be an error, got {got}")


@no_type_check
def _check_at_once(executor: Executor) -> None:
    """Check that two jobs that wait for each other both return."""
    with tempfile.TemporaryDirectory() as folder:
        mine, yours = Path(folder) / "one", Path(folder) / "two"

        def meeting(here: Path, there: Path) -> Job:
            def job() -> bool:
                here.touch()
                until = time.monotonic() + 30.0
                while not there.exists() and time.monotonic() < until:
                    time.sleep(0.01)
                return there.exists()

            return job

        finished = _outcomes(executor, {1: meeting(mine, yours), 2: meeting(yours, mine)})
        met = all(each.value is True for each in finished.values())
        require(met, f"two jobs of two workers did not run at once: {finished}")


@no_type_check
def _ticking(file: Path, stubborn: bool) -> Job:
    """Return a job that hangs and starts a process that writes to a file for ever.

    A stubborn job ignores SIGTERM.
    """
    program = f"import time\nwhile True:\n    open({str(file)!r}, 'a').write('.')\n    time.sleep(0.02)"

    def job() -> None:
        if stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", program])  # noqa: S603 - our own program
        while True:
            time.sleep(1.0)

    return job


def _wait_for(condition: Callable[[], bool], sentence: str) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        require(time.monotonic() < until, sentence)
        time.sleep(0.05)


def _is_still(file: Path) -> bool:
    """Return whether nobody writes to a file; it waits ten times as long as a writer pauses."""
    size = file.stat().st_size if file.exists() else 0
    time.sleep(0.2)
    return size == (file.stat().st_size if file.exists() else 0)


def _check_timeout(make: MakeExecutor, same_machine: bool) -> None:
    """Check that a job that hangs is killed with what it started, and that its slot and its neighbour go on."""
    executor = make(2, TIMEOUT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("meek", "stubborn")]
            jobs = {1: _ticking(files[0], stubborn=False), 2: _ticking(files[1], stubborn=True)}
            finished = _outcomes(executor, {**jobs, 3: lambda: 3, 4: lambda: 4})
            for number in jobs:
                got = finished[number]
                said = got.error is not None and "timed out" in got.error
                require(said and got.value is None and not got.lost, f"a job that hangs should time out, got {got}")
            for number in (3, 4):
                got = finished[number]
                require(got.value == number, f"a job after one that hung should return, got {got}")
            for file in files if same_machine else ():
                _wait_for(lambda: _is_still(file), "a process that a killed job had started still runs")  # noqa: B023
    finally:
        executor.close()


def _check_close(make: MakeExecutor) -> None:
    """Check that closing kills what runs."""
    executor = make(1, None)
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "running"
            executor.submit(1, _ticking(file, stubborn=False))
            require(executor.collect(0.0) == [], "a job that hangs has finished")
            _wait_for(file.exists, "a job did not start")
            executor.close()
            _wait_for(lambda: _is_still(file), "a job still runs after close")
    finally:
        executor.close()
