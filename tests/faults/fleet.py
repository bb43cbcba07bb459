"""A fleet of processes that run one study, and who disturbs them."""

import contextlib
import json
import math
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bmbo.ledger import Owner, open_storage
from bmbo.ledger.planner_lease import OWNER, current_term
from faults import worker

TESTS = Path(__file__).parents[1]

os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])

# Forked from a process that has imported the worker and nothing else: they start in no time.
CONTEXT = multiprocessing.get_context("forkserver")
LOADED_LATER = ["alembic.command", "alembic.script", "optuna.storages._rdb.storage", "optuna.storages._rdb.models"]
"""What the package loads when it opens a database."""
CONTEXT.set_forkserver_preload(["faults.worker", "sqlalchemy.dialects.sqlite.pysqlite", "psycopg", *LOADED_LATER])

LONGEST_SECONDS = 600.0
"""Without an event: a trial that is pending for ever must fail a test, not hang it; a busy machine is only slow."""

AHEAD = 2
"""Kills by which a study may be ahead: on a slow machine it would be over before processes to be killed have joined."""

FROZEN_GRACES = 1.5
"""Grace periods for which a process is stopped."""

STARVED_SECONDS = 1.0
"""How long a process has to go on without more memory, before it is killed."""

TROUBLES = ("pause", "starve", "outage", "kill_job")
"""What may come before a kill."""


RUNNING = set()
"""The processes of all fleets, to be killed when a campaign is stopped."""


class Log:
    """What the objective and its workers wrote, read as it grows."""

    def __init__(self, path):
        self.path = path
        self._lines, self._read = {}, 0
        self.grown = time.monotonic()

    def events(self, kind):
        """All lines of one kind so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            self.grown = time.monotonic() if whole else self.grown
            for line in whole.splitlines():
                # Who is killed at the end of a page of the file leaves half a line, and the next one is behind it.
                event = json.loads(line[line.rindex(b'{"event"') :])
                self._lines.setdefault(event["event"], []).append(event)
        return self._lines.get(kind, [])


@dataclass
class Tally:
    """What happened in a study."""

    name: str
    kind: str = ""
    trials: int = 0
    planner_kills: int = 0
    worker_kills: int = 0
    kills_before_joining: int = 0
    job_kills: int = 0
    suicides: int = 0
    pauses: int = 0
    freezes: int = 0
    starved: int = 0
    outages: int = 0
    evaluations: int = 0
    unwritten: int = 0
    recovered: int = 0
    never_told: int = 0
    requeues: int = 0
    given_up: int = 0
    duplicates: int = 0
    too_many: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def kills(self):
        """Kills of processes that had joined the study."""
        return self.planner_kills + self.worker_kills


class Fleet:
    """Processes that run one study together; one that is killed is replaced.

    Half of the hidden ones say that they are on other machines: that they are dead shows in their silence alone.

    Args:
        folder: for the log and the messages.
        storage: of the study.
        name: of the study in tables.
        size: how many processes there are at a time.
        n_trials: of the study.
        seed: of the troubles.
        options: of every process.
        hidden: whether some claim to be on other machines.
        grace: the grace period of the study.
        clocks: whether the clock of every process jumps.
        executors: of the processes, in turn.
        ends: whether processes may end with an error of the storage; they are replaced.
    """

    def __init__(
        self,
        folder,
        storage,
        *,
        name,
        size,
        n_trials,
        seed,
        options=(),
        hidden=True,
        grace=3.0,
        clocks=False,
        executors=("inline", "inline", "process", "inline", "inline"),
        ends=False,
    ):
        self.log = Log(folder / "log.jsonl")
        self.tally = Tally(name)
        self.storage, self.n_trials, self.folder = storage, n_trials, folder
        self.killed: set[int] = set()
        """Processes that were killed, starved, or killed by their objective."""
        self.killed_jobs: set[tuple[int, int]] = set()
        """Trials whose own process was killed, each with its worker."""
        self.gave_up: set[int] = set()
        """Processes that ended with an error of the storage, where they may."""
        self.tolerant = ends
        self._size, self._hidden, self._grace, self._executors = size, hidden, grace, executors
        self._gate = folder / "gate.txt"
        self._options = [*("--storage", storage, "--log", str(self.log.path), "--n-trials", str(n_trials))]
        self._options += ["--gate", str(self._gate), "--grace", str(grace), *options]
        self._errors, self._clocks = folder / "errors.txt", clocks
        self._random = random.Random(seed)
        self._started = 0
        self._alive = []
        self._asleep: set[int] = set()
        self._frozen = self._suicides = 0
        self._opened = None

    def __enter__(self):
        self._begun = time.monotonic()
        for _ in range(self._size):
            self._start()
        return self

    def __exit__(self, *_):
        for process in list(self._alive):
            process.kill()
            process.join()
            self._forget(process)
        self.tally.seconds = time.monotonic() - self._begun

    @property
    def said(self):
        """What all processes have written on standard error."""
        return self._errors.read_text(errors="replace") if self._errors.exists() else ""

    def kill(self, num, *, troubles=(), share=0.0, outage=None):
        """Kills so many processes that had joined, spread over the study's progress; each is replaced at once.

        Before a share of the kills there is another trouble, one of `TROUBLES`; `outage` makes one of the storage.
        """
        self._let_pass(AHEAD * self.n_trials / num)
        while self._goes_on(lambda: len(self._begun_trials) * num >= self.tally.kills * self.n_trials):
            if troubles and self._random.random() < share:
                trouble = self._random.choice(troubles)
                if trouble != "outage":
                    getattr(self, f"_{trouble}")()
                elif outage is not None:
                    outage()
                    self.tally.outages += 1
            victim = self._victim()
            if victim is None:
                continue
            self._end(victim)
            self._start()
            self._let_pass((self.tally.kills + AHEAD) * self.n_trials / num)
            if self.tally.kills >= num:
                return

    def pause(self, num):
        """Stops so many processes for longer than the grace period; then they go on as if nothing had been."""
        while self.tally.pauses < num and self._goes_on(lambda: not self._asleep):
            self._pause()

    def disturb(self, num, outage):
        """Makes so many outages of the storage, spread over the study's progress; everybody has to outlive them."""
        self._let_pass(AHEAD * self.n_trials / num)
        while self._goes_on(lambda: len(self._begun_trials) * num >= self.tally.outages * self.n_trials):
            outage()
            self.tally.outages += 1
            self._let_pass((self.tally.outages + AHEAD) * self.n_trials / num)
            if self.tally.outages == num:
                return

    def finish(self):
        """Waits until every process has ended of itself."""
        self._let_pass(math.inf)
        while any(process.exitcode is None for process in self._alive) or not self._is_over:
            self._tend()
            time.sleep(0.02)
        self._bury()
        said = self.said
        if ("Traceback" in said and not self.tally.starved) or "SELECT" in said:
            self.complain(f"there was a traceback, or SQL, on standard error: {said[-2000:]}")

    def complain(self, sentence):
        """Keeps a sentence about what is wrong."""
        self.tally.problems.append(sentence)

    # Troubles.

    def _pause(self):
        sleepers = [process for process in self._joined if process.pid not in self._asleep]
        if sleepers:
            sleeper = self._random.choice(sleepers)
            os.kill(sleeper.pid, signal.SIGSTOP)
            self._wake_later(sleeper)
            self.tally.pauses += 1

    def _wake_later(self, sleeper):
        """Lets a process that was stopped go on: not this thread, which may wait for a lock that the process has."""

        def wake():
            self._asleep.discard(sleeper.pid)
            with contextlib.suppress(ValueError, ProcessLookupError):
                if sleeper.exitcode is None:
                    os.kill(sleeper.pid, signal.SIGCONT)

        self._asleep.add(sleeper.pid)
        timer = threading.Timer(FROZEN_GRACES * self._grace, wake)
        timer.daemon = True
        timer.start()

    def _starve(self):
        """Gives one process no more memory than it has, and kills it after a while."""
        joined = self._joined
        if not joined:
            return
        victim = self._random.choice(joined)
        # From here on, what it has found may be lost.
        self.killed.add(victim.pid)
        seen = psutil.Process(victim.pid)
        try:
            most = seen.memory_info().vms
            seen.rlimit(psutil.RLIMIT_AS, (most, most))
        except psutil.Error:
            return
        self.tally.starved += 1
        victim.join(STARVED_SECONDS)
        self._end(victim)
        self._start()

    def _kill_job(self):
        """Kills the process of a trial, where it is another one than that of its worker."""
        ended = {(line["number"], line["worker"]) for line in self.log.events("end")}
        alive = {process.pid for process in self._joined}
        jobs = [line for line in self.log.events("start") if line["pid"] != line["worker"] and line["worker"] in alive]
        jobs = [line for line in jobs if (line["number"], line["worker"]) not in ended | self.killed_jobs]
        if jobs:
            job = self._random.choice(jobs)
            self.killed_jobs.add((job["number"], job["worker"]))
            try:
                os.kill(job["pid"], signal.SIGKILL)
                self.tally.job_kills += 1
            except ProcessLookupError:
                pass

    def _victim(self):
        """Half of the time who plans, if that can be seen; sometimes one that is still starting."""
        planner, joined = self._planner(), self._joined
        if not joined:
            return None
        if planner is not None and self._random.random() < 0.5:
            victim = planner
        else:
            victim = self._random.choice(joined if self._random.random() < 0.9 else self._alive)
        if victim is planner:
            self.tally.planner_kills += 1
        elif victim in joined:
            self.tally.worker_kills += 1
        else:
            self.tally.kills_before_joining += 1
        return victim

    def _end(self, victim):
        self.killed.add(victim.pid)
        victim.kill()
        victim.join()
        self._forget(victim)

    # Processes.

    def _forget(self, process):
        self._alive.remove(process)
        RUNNING.discard(process)

    @property
    def _begun_trials(self):
        return {line["number"] for line in self.log.events("start")}

    @property
    def _is_over(self):
        return bool(self.log.events("left"))

    @property
    def _joined(self):
        joined = {line["worker"] for kind in ("joined", "start") for line in self.log.events(kind)}
        return [process for process in self._alive if process.pid in joined and process.exitcode is None]

    def _planner(self):
        """Who plans. The frozen are seen to first: one of them may hold a lock that this thread waits for."""
        self._see_frozen()
        if self._opened is None:
            self._opened = open_storage(self.storage)
        term = current_term(self._opened, "study")
        owner = None if term is None else Owner.of(term.attributes.get(OWNER) or "")
        return next((process for process in self._joined if owner is not None and process.pid == owner.pid), None)

    def _start(self):
        """One more process; half of them can be hidden from the others."""
        place = self._started
        self._started += 1
        options = ["--executor", self._executors[place % len(self._executors)]]
        if self._clocks:
            options += ["--clock-jumps"]
        if self._hidden and place // 2 % 2:
            options += ["--machine", f"machine-{place}"]
        process = CONTEXT.Process(target=worker.run, args=([*self._options, *options], str(self._errors)))
        process.start()
        RUNNING.add(process)
        self._alive.append(process)

    def _goes_on(self, is_due):
        """Waits until something is due, and a time of any length more; false when the study is over before."""
        while not (self._is_over or (self._joined and is_due())):
            self._tend()
            time.sleep(0.02)
        # From none to longer than an evaluation: so the moment is any.
        time.sleep(self._random.uniform(0.0, 0.4))
        return not self._is_over

    def _tend(self):
        """Wakes who was stopped, replaces who has ended; a study that hangs ends the test."""
        self._see_frozen()
        for line in self.log.events("suicide")[self._suicides :]:
            self._suicides += 1
            self.tally.suicides += 1
            self.killed_jobs.add((line["number"], line["worker"]))
            if line["pid"] == line["worker"]:
                self.killed.add(line["worker"])
        self._bury()
        while len(self._alive) < self._size and not self._is_over:
            self._start()
        if time.monotonic() - self.log.grown > LONGEST_SECONDS:
            raise TimeoutError(f"nothing has happened for {LONGEST_SECONDS:g} s: {self.said[-2000:]}")

    def _see_frozen(self):
        """Lets planners that have stopped themselves go on after a while."""
        for line in self.log.events("frozen")[self._frozen :]:
            self._frozen += 1
            self.tally.freezes += 1
            for process in self._alive:
                if process.pid == line["worker"]:
                    self._wake_later(process)

    def _bury(self):
        """Forgets who has ended; it is wrong to end with an error, if nothing was done to it."""
        for process in [process for process in self._alive if process.exitcode is not None]:
            self._forget(process)
            code = process.exitcode
            if code and self.tolerant:
                self.gave_up.add(process.pid)
            elif code and process.pid not in self.killed:
                suicides = {line["worker"] for line in self.log.events("suicide") if line["pid"] == line["worker"]}
                if process.pid not in suicides:
                    self.complain(f"process {process.pid} ended with {code}: {self.said[-2000:]}")

    def _let_pass(self, num_trials):
        """Trials up to a number may end; others wait for the next kill."""
        new = self._gate.with_suffix(".new")
        new.write_text(str(num_trials))
        new.replace(self._gate)


def preload():
    """Lets the processes of fleets find what they run, wherever this was imported from."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
