"""Compare the record of a study with the log that its objective wrote."""

from collections import Counter

import bmbo
from bmbo.ledger import Ledger, open_storage
from bmbo.ledger.ledger_entries import ASKED
from bmbo.ledger.planner_lease import current_term
from faults.worker import RandomLevels

CRASHES = ("killed by signal 9", "the process ended", "the process closed", "the process died")
"""How the reasons begin of trials whose own process was killed."""


def audit(fleet, *, asked=False):
    """What does not agree is told in sentences; where trials were asked for, no limit counts them."""
    _recover(fleet)
    record = Ledger.load(fleet.storage, "study").read()
    _check_states(fleet, record, limited=not asked)
    _check_results(fleet, record)
    _check_runs(fleet)
    if asked:
        _check_asked(fleet, record)
    elif not fleet.tolerant and current_term(open_storage(fleet.storage), "study") is not None:
        fleet.complain("the planner's lease was not given back")
    tally = fleet.tally
    tally.trials, tally.evaluations = len(record.entries), len(fleet.log.events("start"))
    tally.requeues = sum(entry.retries for entry in record.entries)
    tally.duplicates = sum(entry.duplicate_of is not None for entry in record.entries)
    return tally


def _recover(fleet):
    """Adds what processes found and could not write, and drops what was asked for by who was killed."""
    study = bmbo.load_study(study_name="study", storage=fleet.storage, method=RandomLevels())
    for path in sorted(fleet.folder.rglob("bmbo-unwritten-*.json")):
        fleet.tally.recovered += len(study.recover(path))
    asked = [entry for entry in Ledger.load(fleet.storage, "study").read().entries if entry.owner == ASKED]
    for number in [entry.trial.number for entry in asked if entry.state == "running"]:
        askers = [run["worker"] for run in _runs(fleet, "start", number)]
        if not set(askers) <= fleet.killed:
            fleet.complain(f"trial {number} was asked for and never told, and who asked was not killed")
        study.drop([number])
        fleet.tally.never_told += 1


def _check_states(fleet, record, *, limited):
    tally = fleet.tally
    pending = [entry.trial.number for entry in record.entries if entry.state in ("waiting", "running")]
    if pending:
        fleet.complain(f"trials {pending} are pending for ever")
    planned = sum(entry.duplicate_of is None for entry in record.entries)
    # A result that is kept beside another is a trial of the study too, and may take the place of a planned one.
    if limited and not planned <= fleet.n_trials <= len(record.entries):
        fleet.complain(f"{planned} trials were planned, and {len(record.entries)} recorded, of {fleet.n_trials}")
    for entry in record.entries:
        if entry.state == "failed":
            _check_failure(fleet, entry.trial)
    for number in {line["number"] for line in fleet.log.events("suicide")}:
        if record.entries[number].state != "failed":
            fleet.complain(f"trial {number} kills every process that runs it, and is {record.entries[number].state}")
    tally.too_many = max(planned - fleet.n_trials, 0) if limited else 0


def _check_failure(fleet, trial):
    error, number = trial.outcome.error, trial.number
    workers = {run["worker"] for run in _runs(fleet, "start", number)}
    jobs = {worker for each, worker in fleet.killed_jobs if each == number}
    if error == "its worker died 3 times":
        fleet.tally.given_up += 1
        if not workers & fleet.killed:
            fleet.complain(f"trial {number} was given up, but none of its workers was killed")
    elif error.startswith(CRASHES):
        if not jobs:
            fleet.complain(f"trial {number} failed, and nobody had killed its process: {error}")
    elif "MemoryError" in error:
        if not (fleet.tally.starved and workers & fleet.killed):
            fleet.complain(f"trial {number} had no memory, and nobody had taken it: {error}")
    else:
        fleet.complain(f"trial {number} failed: {error}")


def _check_results(fleet, record):
    ended = {line["value"]: line for line in fleet.log.events("end")}
    recorded = Counter(trial.value for trial in record.history.done)
    for entry in record.entries:
        line = ended.get(entry.trial.value)
        if entry.trial.value is None:
            continue
        number = entry.trial.number if entry.duplicate_of is None else entry.duplicate_of
        run = (number, entry.trial.query.level, dict(entry.params))
        if line is None or run != (line["number"], line["level"], line["params"]):
            fleet.complain(f"trial {entry.trial.number} has a result that no run gave: {run}, {line}")
    twice = [value for value, count in recorded.items() if count > 1]
    if twice:
        fleet.complain(f"results {twice} are counted twice")
    for line in fleet.log.events("kept"):
        if line["value"] is not None and record.entries[line["number"]].trial.value != line["value"]:
            fleet.complain(f"a result that was said to be kept is lost: {line}")
    for value, line in ended.items():
        if value not in recorded:
            fleet.tally.unwritten += 1
            apart = any(run["pid"] != run["worker"] for run in _runs(fleet, "start", line["number"]))
            if apart and line["worker"] in fleet.gave_up:
                continue
            if line["worker"] not in fleet.killed and (line["number"], line["worker"]) not in fleet.killed_jobs:
                fleet.complain(f"a result is lost, and its worker was not killed: {line}")


def _check_runs(fleet):
    ended = Counter((line["number"], line["worker"]) for line in fleet.log.events("end"))
    started = Counter((line["number"], line["worker"]) for line in fleet.log.events("start"))
    for (number, pid), count in (started - ended).items():
        if pid not in fleet.killed | fleet.gave_up and (number, pid) not in fleet.killed_jobs:
            fleet.complain(f"trial {number} was begun {count} times by {pid}, which lives, and never ended")


def _check_asked(fleet, record):
    """Of several who ask at once, each has trials and configurations of its own."""
    begun = Counter(line["number"] for line in fleet.log.events("start"))
    twice = [number for number, count in begun.items() if count > 1]
    if twice:
        fleet.complain(f"trials {twice} were given to several who asked")
    points = Counter((entry.trial.query.unit, entry.trial.query.level) for entry in record.entries)
    same = sum(count - 1 for count in points.values())
    if same:
        fleet.complain(f"{same} trials that were asked for repeat the configuration of another")


def _runs(fleet, kind, number):
    return [line for line in fleet.log.events(kind) if line["number"] == number]
