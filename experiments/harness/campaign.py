"""Run many tasks in parallel, keep the finished runs, and continue where an earlier call stopped."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bmbo.executors import make_executor
from experiments.harness import run_record as records
from experiments.harness.run_record import CRASHED, TIMED_OUT, Record
from experiments.harness.run_settings import Settings, Task
from experiments.harness.shared_process_job import SharedProcessJob
from experiments.harness.subprocess_job import NotInstalledHereError, SubprocessJob, thread_limits

SHARED = "shared"

ENGINES = {"local": "process", SHARED: "process", "ray": "ray"}
"""The engines and their executors. "shared" executes runs inside the workers, the others start a process for each."""

LOST_RETRIES = 2
"""How often a run is started again after its machine was lost."""


class SettingsDifferError(ValueError):
    """Say that a record was made under other settings."""


@dataclass
class Campaign:
    """Run tasks, and count how they ended.

    Attributes:
        folder: the folder of the records.
        tasks: all tasks that are wanted.
        settings: the settings of each problem.
        jobs: the number of runs at the same time.
        engine: one of `ENGINES`.
        timeout: the seconds after which a run is killed and recorded as timed out.
        plugins: the user's own modules with methods and problems.
        paths: the folders where these modules are found.
        retry_failed: whether runs that crashed or timed out are run again.
        seconds: the seconds of the finished runs, by method.
        missing: why a method cannot run here, by method.
        lost: how often the machine of a task was lost.
    """

    folder: Path
    tasks: Sequence[Task]
    settings: dict[str, Settings]
    jobs: int = 1
    engine: str = "local"
    timeout: float | None = None
    plugins: Sequence[str] = ()
    paths: Sequence[str] = ()
    retry_failed: bool = False
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    lost: dict[Task, int] = field(default_factory=dict[Task, int])

    def left(self) -> list[Task]:
        """Return the tasks without a record. Raise `SettingsDifferError` if a record has other settings."""
        left: list[Task] = []
        for task in self.tasks:
            path = records.path_of(self.folder, task)
            if not path.is_file():
                left.append(task)
                continue
            record = records.read(path)
            if Settings(**record.header["settings"]) != self.settings[task.problem]:
                raise SettingsDifferError(
                    f"the record of {task} was made with {record.header['settings']}, not with "
                    f"{self.settings[task.problem].to_json()}; choose another --records folder or remove it"
                )
            if self.retry_failed and record.status != records.FINISHED:
                left.append(task)
            else:
                self.seconds.setdefault(task.method, []).append(record.seconds)
        return left

    def run(self, show_progress: bool = True) -> dict[str, int]:
        """Run the tasks that are left, and return how many of all tasks ended with each status."""
        waiting = self.left()
        bar = self._bar(len(self.tasks) - len(waiting), show_progress)
        executor: Any = make_executor(ENGINES[self.engine], self.jobs, self.timeout)
        running: dict[int, Task] = {}
        number = 0
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    task = waiting.pop(0)
                    if task.method in self.missing:
                        bar.update()
                        continue
                    executor.submit(number, self._job(task))
                    running[number] = task
                    number += 1
                bar.set_postfix_str(self._forecast(waiting, running.values()), refresh=False)
                bar.update(0)
                for finished in executor.collect(1.0) if running else ():
                    task = running.pop(finished.number)
                    if finished.lost and self.lost.get(task, 0) < LOST_RETRIES:
                        self.lost[task] = self.lost.get(task, 0) + 1
                        waiting.insert(0, task)
                        continue
                    self._keep(task, finished)
                    bar.update()
        finally:
            executor.close()
            bar.close()
        return self._tally()

    def _bar(self, done: int, shown: bool) -> Any:
        # The time left is our own estimate, because tqdm assumes that all runs take equally long. A log file gets few
        # lines.
        form = "{l_bar}{bar}| {n_fmt}/{total_fmt} runs, {elapsed} so far{postfix}"
        interval = 0.5 if sys.stderr.isatty() else 30.0
        return tqdm(total=len(self.tasks), initial=done, disable=not shown, bar_format=form, mininterval=interval)

    def _job(self, task: Task) -> Callable[[], object]:
        request = {
            "task": asdict(task),
            "settings": self.settings[task.problem].to_json(),
            "partial": str(records.partial_path_of(self.folder, task).absolute()),
            "plugins": list(self.plugins),
            "paths": list(self.paths),
        }
        if self.engine == SHARED:
            return SharedProcessJob(request)
        threads = max(1, (os.cpu_count() or 1) // self.jobs)
        return SubprocessJob(request, thread_limits(threads) if self.jobs > 1 else {})

    def _keep(self, task: Task, finished: Any) -> None:
        """Write the record of a run, however it ended."""
        if isinstance(finished.exception, NotInstalledHereError):
            self.missing[task.method] = str(finished.exception)
            return
        if finished.error is None:
            text = str(finished.value).splitlines()
        else:
            text = records.lines(self._failed(task, finished))
        records.write(self.folder, task, text)
        self.seconds.setdefault(task.method, []).append(finished.seconds)

    def _failed(self, task: Task, finished: Any) -> Record:
        """Return a record of a run that gave none: the lines that it left, and the reason."""
        found = records.read_partial(self.folder, task)
        if found is None:
            found = Record(task, {"settings": self.settings[task.problem].to_json()}, ())
        status = TIMED_OUT if "timed out" in finished.error else CRASHED
        return replace(found, status=status, reason=finished.error, seconds=round(finished.seconds, 2))

    def _forecast(self, waiting: Iterable[Task], running: Iterable[Task]) -> str:
        """Return an estimate of the time left, from the times of finished runs of the same method."""
        known = {method: sum(seconds) / len(seconds) for method, seconds in self.seconds.items()}
        if not known:
            return ""
        other = sum(known.values()) / len(known)
        # The running tasks are half finished on average.
        total = sum(known.get(task.method, other) for task in waiting)
        total += sum(known.get(task.method, other) / 2 for task in running)
        return f"about {_duration(total / self.jobs)} left"

    def _tally(self) -> dict[str, int]:
        tally: dict[str, int] = {}
        for task in self.tasks:
            path = records.path_of(self.folder, task)
            status = records.read(path).status if path.is_file() else "not installed"
            tally[status] = tally.get(status, 0) + 1
        return tally


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
