"""Run rounds until every storage has had so many kills; the figures are on a page after each round."""

import json
import threading
import time
from collections import Counter
from dataclasses import asdict, fields
from pathlib import Path

from faults.fleet import RUNNING, Tally
from faults.rounds import run_round

KILLS_A_ROUND = 25

HEAD = """\
<!-- written by `{command}` -->
# Faults

Each round of the campaign is a study that several processes run together while they are killed with `kill -9` at
random moments, and their storage, memory and clocks are disturbed. At the end, the record is compared with a log that
the objective itself has written. "Wrong" counts what does not agree: a result that is lost, doubled or of no run, a
trial that is pending for ever, one that failed without a cause, a trial more than the limit, a process that ended with
an error or showed a traceback.
"""

COLUMNS = {
    "trials": lambda tally: tally.trials,
    "evaluations begun": lambda tally: tally.evaluations,
    "planners killed": lambda tally: tally.planner_kills,
    "workers killed": lambda tally: tally.worker_kills,
    "killed while starting": lambda tally: tally.kills_before_joining,
    "processes of trials killed": lambda tally: tally.job_kills + tally.suicides,
    "stopped and continued": lambda tally: tally.pauses,
    "planners frozen at a check": lambda tally: tally.freezes,
    "starved": lambda tally: tally.starved,
    "outages": lambda tally: tally.outages,
    "ended, killed before it was written": lambda tally: tally.unwritten,
    "recovered from a file": lambda tally: tally.recovered,
    "asked for by who was killed": lambda tally: tally.never_told,
    "queued again": lambda tally: tally.requeues,
    "given up after 3 deaths": lambda tally: tally.given_up,
    "late results kept beside another": lambda tally: tally.duplicates,
    "wrong": lambda tally: len(tally.problems),
}


def campaign(storages, kills, *, kills_a_round, first, only, record, report, command):
    """Runs rounds of all storages side by side; the page of what was found so far is written after each."""
    lock, begun, stopped = threading.Lock(), time.monotonic(), threading.Event()
    found = [] if record is None or not record.exists() else tallies_in(record)

    def add(tally):
        with lock:
            # What goes wrong while all is taken down is no finding.
            if stopped.is_set():
                return
            found.append(tally)
            if record is not None:
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(tally)) + "\n")
            if report is not None:
                report.write_text(page(found, command), encoding="utf-8")
            print(f"{time.monotonic() - begun:.0f} s: {tally}", flush=True)

    def rounds_of(kind):
        number = first + sum(tally.kind == kind for tally in found)
        while (done := kills_of(found, kind)) < kills and not stopped.is_set():
            add(run_round(kind, number, min(kills_a_round, kills - done), only))
            number += 1
            if sum(bool(tally.problems) for tally in found) > MOST_WRONG:
                return

    threads = [threading.Thread(target=rounds_of, args=(kind,), daemon=True) for kind in storages]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        stopped.set()
        for process in list(RUNNING):
            process.kill()
    return found


MOST_WRONG = 40
"""Rounds with something wrong after which nothing new is to be learned."""


def kills_of(tallies, kind):
    """Kills of processes of a storage that had joined."""
    return sum(tally.kills for tally in tallies if tally.kind == kind)


def tallies_in(record: Path):
    """The rounds that a file has kept."""
    names = {each.name for each in fields(Tally)}
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    return [Tally(**{name: value for name, value in line.items() if name in names}) for line in lines]


def page(tallies, command, note=""):
    """What was found, as Markdown."""
    kinds = list(dict.fromkeys(tally.kind for tally in tallies))
    parts = [HEAD.format(command=command)]
    said = ", ".join(f"{kills_of(tallies, kind):,} on {kind}" for kind in kinds)
    wrong = sum(len(tally.problems) for tally in tallies)
    minutes = sum(tally.seconds for tally in tallies) / 60
    parts.append(
        f"There were {len(tallies)} rounds so far, with {sum(tally.kills for tally in tallies):,} kills of processes "
        f"that had joined their study ({said}), in {minutes:.0f} minutes of rounds. Wrong: {wrong}.\n"
    )
    parts += [f"{note}\n"] if note else []
    for kind in kinds:
        parts.append(f"## {kind}\n")
        parts.append(table([tally for tally in tallies if tally.kind == kind]) + "\n")
    problems = [f"- {tally.kind}, {tally.name}: {each}" for tally in tallies for each in tally.problems]
    if problems:
        parts.append("## What was wrong\n")
        parts.append("\n".join(problems) + "\n")
    return "\n".join(parts)


def table(tallies):
    """One line for all rounds of a name, and one for all."""
    rows = []
    for name in [*dict.fromkeys(tally.name for tally in tallies), "all"]:
        some = [tally for tally in tallies if name in (tally.name, "all")]
        counts = Counter()
        for tally in some:
            counts.update({column: of(tally) for column, of in COLUMNS.items()})
        rows.append([name, len(some), *(counts[column] for column in COLUMNS)])
    header = ["what is run or disturbed", "rounds", *COLUMNS]
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    shown = [[f"{each:,}" if isinstance(each, int) else each for each in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in shown)
