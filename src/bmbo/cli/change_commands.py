"""Carry out the commands that change what a study knows: add, retry, drop, recover, delete. None runs anything."""

import argparse
import json
import sys

from bmbo.cli.arguments import ChosenStudy, UsageError
from bmbo.cli.read_commands import StudyReading, shown_owner
from bmbo.ledger import redacted
from bmbo.study import load_study, retry_and_drop, unwritten
from bmbo.study.checkpoints import root_of
from bmbo.study.short_text import params_line, short_text


def add(arguments: argparse.Namespace) -> int:
    """Add the results of a table, print how many, and return the exit code."""
    chosen = ChosenStudy.of(arguments)
    study = load_study(study_name=chosen.name, storage=chosen.storage)
    before = len(study.trials)
    held = [trial.number for trial in study.add_trials(arguments.table)]
    if arguments.json:
        print(json.dumps(held, indent=2))
        return 0
    known = sum(number < before for number in held)
    more = f"; {known} were there already" if known else ""
    print(f"{len(held) - known} results added from {arguments.table}{more}")
    return 0


def learn(arguments: argparse.Namespace) -> int:
    """Queue the best configurations of an older study, print under which numbers, and return the exit code."""
    chosen = ChosenStudy.of(arguments)
    study = load_study(study_name=chosen.name, storage=chosen.storage)
    older = load_study(study_name=arguments.from_study, storage=arguments.from_storage or chosen.storage)
    queued = study.learn_from(older, arguments.number)
    if arguments.json:
        print(json.dumps([trial.number for trial in queued], indent=2))
        return 0
    for trial in queued:
        print(f"trial {trial.number} is queued: {params_line(trial.params)}")
    print("bmbo resume runs what is queued" if queued else "nothing was queued: everything is known already")
    return 0


def retry(arguments: argparse.Namespace) -> int:
    """Queue failed trials again, print under which numbers, and return the exit code."""
    reading = StudyReading.of(ChosenStudy.of(arguments))
    new = retry_and_drop.retry(reading.ledger, arguments.trials, refund=arguments.refund)
    entries = reading.ledger.read().entries
    pairs = [(entries[number].retry_of, number) for number in new]
    if arguments.json:
        print(json.dumps([{"retry_of": old, "number": number} for old, number in pairs], indent=2))
        return 0
    for old, number in pairs:
        print(f"trial {old} is queued again as trial {number}")
    print("bmbo resume runs what is queued" if pairs else "no trial has failed that could be queued again")
    return 0


def drop(arguments: argparse.Namespace) -> int:
    """Take trials out of what is known, print which, and return the exit code."""
    reading = StudyReading.of(ChosenStudy.of(arguments))
    if (arguments.trials is None) != arguments.failed:
        raise UsageError("give the trials to drop: their numbers after --trials, or --failed for all that failed")
    failed = [entry.trial.number for entry in reading.entries if entry.state == "failed"]
    chosen: list[int] = failed if arguments.failed else arguments.trials
    dropped = retry_and_drop.drop(reading.ledger, chosen, refund=arguments.refund)
    if arguments.json:
        print(json.dumps(dropped, indent=2))
        return 0
    print(f"dropped: {', '.join(f'trial {number}' for number in dropped) or 'no trial'}")
    print(f"cost spent: {short_text(reading.ledger.read().history.spent)}")
    return 0


def recover(arguments: argparse.Namespace) -> int:
    """Add the results of a file that a run wrote when its storage was away, print which, and return the exit code."""
    reading = StudyReading.of(ChosenStudy.of(arguments))
    numbers = unwritten.recover(reading.ledger, arguments.results)
    if arguments.json:
        print(json.dumps(numbers, indent=2))
        return 0
    print(f"added: {', '.join(f'trial {number}' for number in numbers) or 'no trial'}")
    return 0


def delete(arguments: argparse.Namespace) -> int:
    """Delete a study after a confirmation and return the exit code, 1 if it was not confirmed."""
    chosen = ChosenStudy.of(arguments)
    reading = StudyReading.of(chosen)
    where = f"study {chosen.name} in {redacted(chosen.storage)}"
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise UsageError(f"deleting {where} needs a confirmation: nobody can be asked here, so add --yes")
        planner = reading.planner
        works = "" if planner is None else f" {shown_owner(planner)} works on it."
        question = f"{where} has {len(reading.entries)} trials that cost {short_text(reading.spent)}.{works} Delete it?"
        if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was deleted")
            return 1
    checkpoints = root_of(reading.ledger)
    reading.ledger.delete()
    print(f"{where} was deleted")
    if checkpoints.is_dir():
        print(f"its checkpoints stay in {checkpoints}")
    return 0
