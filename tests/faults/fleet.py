"""A fleet of processes that run one study, who kills them, and what must be true in the end."""

import json
import math
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

from bmbo.ledger import Ledger, Owner, open_storage
from bmbo.ledger.planner_lease import OWNER, current_term
from faults import worker

# Not forked from one that has imported everything: such children hung.
CONTEXT = multiprocessing.get_context("spawn")

LONGEST_SECONDS = 600.0
"""Of a study: a trial that is pending for ever must fail a test, not hang it."""


AHEAD = 2
"""Kills by which a study may be ahead: on a slow machine it would be over before processes to be killed have joined."""


class Log:
    """What the objective and its workers wrote, read as it grows."""

    def __init__(self, path):
        self.path = path
        self._lines, self._read = [], 0

    def events(self, kind):
        """All lines of one kind so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            self._lines += [json.loads(line) for line in whole.splitlines()]
        return [line for line in self._lines if line["event"] == kind]


@dataclass
class Tally:
    """What happened in a study."""

    name: str
    trials: int = 0
    planner_kills: int = 0
    worker_kills: int = 0
    kills_before_joining: int = 0
    pauses: int = 0
    evaluations: int = 0
    unwritten: int = 0
    requeues: int = 0
    given_up: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def kills(self):
        """Kills of processes that had joined the study."""
        return self.planner_kills + self.worker_kills


class Fleet:
    """Processes that run one study together; one that is killed is replaced.

    Half of the hidden ones say that they are on other machines: that they are dead shows in their silence alone.
    """

    def __init__(self, folder, storage, *, name, size, n_trials, seed, options=(), hidden=True):
        self.log = Log(folder / "log.jsonl")
        self.tally = Tally(name)
        self._storage, self._n_trials, self._size, self._hidden = storage, n_trials, size, hidden
        self._gate = folder / "gate.txt"
        self._options = [*("--storage", storage, "--log", str(self.log.path), "--n-trials", str(n_trials))]
        self._options += ["--gate", str(self._gate), *options]
        self._errors = folder / "errors.txt"
        self._random = random.Random(seed)
        self._started = 0
        self._alive = []
        self._killed: set[int] = set()
        self._opened = None

    def __enter__(self):
        self._begun = time.monotonic()
        for _ in range(self._size):
            self._start()
        return self

    def __exit__(self, *_):
        for process in self._alive:
            process.kill()
            process.join()
        self.tally.seconds = time.monotonic() - self._begun

    def kill(self, num):
        """Kills so many processes that had joined, spread over the study's progress; each is replaced at once."""
        self._let_pass(AHEAD * self._n_trials / num)
        while self._goes_on(lambda: len(self._begun_trials) * num >= self.tally.kills * self._n_trials):
            victim = self._victim()
            victim.kill()
            victim.join()
            self._killed.add(victim.pid)
            self._alive.remove(victim)
            self._start()
            self._let_pass((self.tally.kills + AHEAD) * self._n_trials / num)
            if self.tally.kills == num:
                return

    def pause(self, num, seconds):
        """Stops so many processes for longer than the grace period; then they go on as if nothing had been."""
        while self.tally.pauses < num and self._goes_on(lambda: True):
            sleeper = self._random.choice(self._joined)
            os.kill(sleeper.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(sleeper.pid, signal.SIGCONT)
            self.tally.pauses += 1

    def finish(self):
        """Waits until every process has ended of itself."""
        self._let_pass(math.inf)
        for process in self._alive:
            process.join(LONGEST_SECONDS)
            if process.exitcode != 0:
                said = self._errors.read_text()[-2000:]
                self._complain(f"process {process.pid} ended with {process.exitcode}: {said}")
                process.kill()
        self._alive = []

    def check(self):
        """Compares the record with the log; what does not agree is told in sentences."""
        record = Ledger.load(self._storage, "study").read()
        self._check_states(record)
        self._check_results(record)
        self._check_runs()
        if current_term(open_storage(self._storage), "study") is not None:
            self._complain("the planner's lease was not given back")
        tally = self.tally
        tally.trials, tally.evaluations = len(record.entries), len(self.log.events("start"))
        tally.requeues = sum(entry.retries for entry in record.entries)
        tally.duplicates = sum(entry.duplicate_of is not None for entry in record.entries)
        return tally

    def _check_states(self, record):
        pending = [entry.trial.number for entry in record.entries if entry.state in ("waiting", "running")]
        if pending:
            self._complain(f"trials {pending} are pending for ever")
        planned = sum(entry.duplicate_of is None for entry in record.entries)
        # A result that is kept beside another is a trial of the study too, and may take the place of a planned one.
        if not planned <= self._n_trials <= len(record.entries):
            self._complain(f"{planned} trials were planned, and {len(record.entries)} recorded, of {self._n_trials}")
        for trial in record.history.failed:
            self.tally.given_up += 1
            if trial.outcome.error != "its worker died 3 times":
                self._complain(f"trial {trial.number} failed: {trial.outcome.error}")
            deaths = [run for run in self._runs("start", trial.number) if run["worker"] in self._killed]
            if not deaths:
                self._complain(f"trial {trial.number} was given up, but none of its workers was killed")

    def _check_results(self, record):
        space = record.history.problem.space
        ended = {line["value"]: line for line in self.log.events("end")}
        recorded = Counter(trial.value for trial in record.history.done)
        for entry in record.entries:
            line = ended.get(entry.trial.value)
            if entry.trial.value is None:
                continue
            number = entry.trial.number if entry.duplicate_of is None else entry.duplicate_of
            run = (number, entry.trial.query.level, space.decode(entry.trial.query.unit))
            if line is None or run != (line["number"], line["level"], line["params"]):
                self._complain(f"trial {entry.trial.number} has a result that no run gave: {run}, {line}")
        twice = [value for value, count in recorded.items() if count > 1]
        if twice:
            self._complain(f"results {twice} are counted twice")
        for line in self.log.events("kept"):
            if line["value"] is not None and record.entries[line["number"]].trial.value != line["value"]:
                self._complain(f"a result that was said to be kept is lost: {line}")
        for value, line in ended.items():
            if value not in recorded:
                self.tally.unwritten += 1
                if line["worker"] not in self._killed:
                    self._complain(f"a result is lost, and its worker was not killed: {line}")

    def _check_runs(self):
        ended = Counter((line["number"], line["worker"]) for line in self.log.events("end"))
        started = Counter((line["number"], line["worker"]) for line in self.log.events("start"))
        for (number, pid), count in (started - ended).items():
            if pid not in self._killed:
                self._complain(f"trial {number} was begun {count} times by {pid}, which lives, and never ended")

    @property
    def _begun_trials(self):
        return {line["number"] for line in self.log.events("start")}

    @property
    def _is_over(self):
        return bool(self.log.events("left"))

    @property
    def _joined(self):
        joined = {line["worker"] for line in self.log.events("joined")}
        return [process for process in self._alive if process.pid in joined and process.exitcode is None]

    def _runs(self, kind, number):
        return [line for line in self.log.events(kind) if line["number"] == number]

    def _victim(self):
        """Half of the time who plans, if that can be seen; sometimes one that is still starting."""
        planner = self._planner()
        if planner is not None and self._random.random() < 0.5:
            self.tally.planner_kills += 1
            return planner
        process = self._random.choice(self._joined if self._random.random() < 0.9 else self._alive)
        if process is planner:
            self.tally.planner_kills += 1
        elif process in self._joined:
            self.tally.worker_kills += 1
        else:
            self.tally.kills_before_joining += 1
        return process

    def _planner(self):
        if self._opened is None:
            self._opened = open_storage(self._storage)
        term = current_term(self._opened, "study")
        owner = None if term is None else Owner.of(term.user_attrs.get(OWNER) or "")
        return next((process for process in self._joined if owner is not None and process.pid == owner.pid), None)

    def _start(self):
        """One more process; every fourth one evaluates in a child, and half of them can be hidden from the others."""
        place = self._started
        self._started += 1
        options = ["--executor", "process" if place % 4 == 1 else "inline"]
        if self._hidden and place // 2 % 2:
            options += ["--machine", f"machine-{place}"]
        process = CONTEXT.Process(target=worker.run, args=([*self._options, *options], str(self._errors)))
        process.start()
        self._alive.append(process)

    def _goes_on(self, is_due):
        """Waits until something is due, and a time of any length more; false when the study is over before."""
        deadline = self._begun + LONGEST_SECONDS
        while not (self._is_over or (self._joined and is_due())):
            self._look_after(deadline)
            time.sleep(0.02)
        # From none to longer than an evaluation: so the moment is any.
        time.sleep(self._random.uniform(0.0, 0.4))
        return not self._is_over and bool(self._joined)

    def _look_after(self, deadline):
        """A study that hangs, or a process that ends of itself in the midst of it, ends the test."""
        ended = [process.pid for process in self._alive if process.exitcode]
        if ended or time.monotonic() > deadline:
            said = self._errors.read_text()[-2000:] if self._errors.exists() else ""
            raise RuntimeError(f"{self.tally}: processes {ended} ended, or it took too long: {said}")

    def _let_pass(self, num_trials):
        """Trials up to a number may end; others wait for the next kill."""
        new = self._gate.with_suffix(".new")
        new.write_text(str(num_trials))
        new.replace(self._gate)

    def _complain(self, sentence):
        self.tally.problems.append(sentence)


def summary(tallies):
    """A Markdown table of what happened."""
    columns = {
        "study": lambda tally: tally.name,
        "trials": lambda tally: tally.trials,
        "planners killed": lambda tally: tally.planner_kills,
        "workers killed": lambda tally: tally.worker_kills,
        "killed while starting": lambda tally: tally.kills_before_joining,
        "paused": lambda tally: tally.pauses,
        "evaluations begun": lambda tally: tally.evaluations,
        "ended, killed before it was written": lambda tally: tally.unwritten,
        "queued again": lambda tally: tally.requeues,
        "given up after 3 deaths": lambda tally: tally.given_up,
        "late results kept beside another": lambda tally: tally.duplicates,
        "seconds": lambda tally: f"{tally.seconds:.0f}",
        "wrong": lambda tally: len(tally.problems),
    }
    rows = [list(columns), ["---"] * len(columns), *([str(of(tally)) for of in columns.values()] for tally in tallies)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
