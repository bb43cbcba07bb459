"""Keep results in a file that a storage did not take, and add them to the study later."""

import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bmbo.history import Outcome
from bmbo.ledger import Ledger, LedgerEntry, Owner
from bmbo.study.user_attributes import checked_attribute

logger = logging.getLogger("bmbo")

KIND = "results that bmbo could not write"
"""What the file says about itself."""


@dataclass(frozen=True)
class Result:
    """Hold a trial of a run, what it gave, what its objective noted on it and reported, and where it stopped early."""

    entry: LedgerEntry
    outcome: Outcome
    user_attrs: Mapping[str, Any]
    reported: Mapping[int, float] = field(default_factory=dict[int, float])
    reached: int | None = None


def write(ledger: Ledger, result: Result, owner: str) -> int:
    """Write a result into the record, and return the number of the trial that holds it."""
    reported, reached = result.reported, result.reached
    return ledger.finish(result.entry, result.outcome, owner, result.user_attrs, reported=reported, reached=reached)


def save(folder: Path, ledger: Ledger, owner: Owner, results: Sequence[Result]) -> Path | None:
    """Write results into a new file and say how to add them; if no folder takes the file, say the results themselves.

    Args:
        folder: where the file is wanted; the second choice is the folder for temporary files.
        ledger: the record of the study.
        owner: the process that found the results.
        results: what the trials gave.
    """
    found = [
        {
            "trial": each.entry.trial.number,
            "params": dict(each.entry.params),
            "level": each.entry.trial.query.level,
            "retries": each.entry.retries,
            "value": each.outcome.value,
            "cost": each.outcome.cost,
            "seconds": each.outcome.seconds,
            "error": each.outcome.error,
            "checkpoint": each.outcome.checkpoint,
            "measured": list(each.outcome.measured),
            **({"further": list(each.outcome.further)} if each.outcome.further else {}),
            "user_attrs": dict(each.user_attrs),
            **({"reported": {str(level): value for level, value in each.reported.items()}} if each.reported else {}),
            **({} if each.reached is None else {"reached": each.reached}),
        }
        for each in results
    ]
    content = {"kind": KIND, "study": ledger.name, "owner": owner.text, "results": found}
    numbers = ", ".join(str(each["trial"]) for each in found)
    for place in (lambda: folder, lambda: Path(tempfile.gettempdir())):
        try:
            # There may be no folder for temporary files: it has to take a file.
            path = place().absolute() / f"bmbo-unwritten-{owner.token}.json"
            _write(path, content)
        except OSError:
            continue
        logger.warning(
            'the storage did not take the results of trials %s; they are in %s, and "bmbo recover --results FILE" or '
            "study.recover(FILE) adds them",
            numbers,
            path,
        )
        return path
    logger.error("the results of trials %s could be written nowhere: %s", numbers, json.dumps(found))
    return None


def recover(ledger: Ledger, path: Path) -> list[int]:
    """Add the results of a file to the study, remove the file, and return the numbers of the trials with the results.

    Raises:
        ValueError: The file is not one of `save`, or belongs to another study. Nothing is added then.
    """
    content = _read(path)
    if content.get("study") != ledger.name:
        raise ValueError(f"{path} has results of the study {content.get('study')!r}, not of {ledger.name!r}")
    entries = ledger.read().entries
    checked: list[Result] = []
    for each in content["results"]:
        try:
            # The attempt is the one of the run, also if the trial was queued again since.
            entry = replace(entries[each["trial"]], retries=int(each["retries"]))
            same = each["level"] == entry.trial.query.level
            same = same and ledger.problem.space.encode(each["params"]) == entry.trial.query.unit
            error = each["error"]
            outcome = Outcome(
                None if each["value"] is None else float(each["value"]),
                float(each["cost"]),
                float(each["seconds"]),
                **({} if error is None else {"error": str(error)}),
                checkpoint=bool(each["checkpoint"]),
                measured=tuple(float(number) for number in each.get("measured", ())),
                further=tuple(float(number) for number in each.get("further", ())),
            )
            noted = {key: checked_attribute(key, value) for key, value in each["user_attrs"].items()}
            reported = {int(level): float(value) for level, value in each.get("reported", {}).items()}
            reached = None if each.get("reached") is None else int(each["reached"])
            same = same and len(outcome.values) in (0, ledger.problem.num_objectives)
            same = same and all(0 <= level < each["level"] for level in (*reported, *([reached] if reached else [])))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} has a result that does not fit this study: {each!r} ({error})") from None
        if not same:
            raise ValueError(f"{path} has a result of another study of this name: trial {each['trial']} differs")
        checked.append(Result(entry, outcome, noted, reported, reached))
    numbers: list[int] = []
    for result in checked:
        numbers.append(write(ledger, result, content["owner"]))
        # What was added is not added again, if this process is killed before the end.
        _write(path, {**content, "results": content["results"][len(numbers) :]})
    path.unlink()
    return numbers


def _read(path: Path) -> dict[str, Any]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ValueError(f"{path} is no file of results that bmbo could not write: {error}") from None
    is_ours = isinstance(content, dict) and content.get("kind") == KIND
    if not is_ours or not isinstance(content.get("results"), list) or not isinstance(content.get("owner"), str):
        raise ValueError(f"{path} is no file of results that bmbo could not write")
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file that only its user can read: at once, or not at all."""
    new = path.with_suffix(".new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
