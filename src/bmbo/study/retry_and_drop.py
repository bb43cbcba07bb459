"""Queue failed trials again, and take trials out of what is known, their cost given back if asked for.

No record is destroyed: a retry is a trial of its own, and a dropped trial is only marked.
"""

from collections.abc import Iterable

from bmbo.ledger import ASKED, Ledger, LedgerEntry, LedgerSnapshot
from bmbo.problem.number_checks import is_whole
from bmbo.study.trial import Trial

Chosen = Trial | int | Iterable[Trial | int]
"""One trial or several, or their numbers."""


def retry(ledger: Ledger, chosen: Chosen | None, *, refund: bool) -> list[int]:
    """Queue trials again and return the numbers of the new trials, in the order in which they were chosen.

    Args:
        ledger: the record of the study.
        chosen: the trials; None for all failed trials that were not queued again yet and that no value has replaced.
        refund: whether to give the cost of the failed trials back.

    Raises:
        KeyError: There is no trial of a number.
        ValueError: A trial neither failed nor was dropped. Nothing is queued then.
    """
    record = ledger.read()
    entries = _failed_for_good(record) if chosen is None else _entries(record, chosen)
    for entry in entries:
        if entry.state not in ("failed", "dropped"):
            more = "; enqueue its parameters to run them once more" if entry.state == "complete" else ""
            raise ValueError(
                f"trial {entry.trial.number} is {entry.state}: only failed and dropped trials can be retried{more}"
            )
    numbers: list[int] = []
    for entry in entries:
        # First, so that a process that dies in between leaves a trial that is retried at the next call.
        if refund:
            ledger.refund(entry)
        numbers.append(ledger.add(entry.trial.query, retry_of=entry.trial.number, params=entry.params))
    return numbers


def drop(ledger: Ledger, chosen: Chosen, *, refund: bool) -> list[int]:
    """Take trials out of what is known and return their numbers.

    Args:
        ledger: the record of the study.
        chosen: the trials; those that wait are taken out of the queue, and those that were asked for are given up.
        refund: whether to give their cost back.

    Raises:
        KeyError: There is no trial of a number.
        ValueError: A process runs one of the trials. Nothing is dropped then.
        RuntimeError: A trial that waited was started meanwhile. Those before it were dropped.
    """
    entries = _entries(ledger.read(), chosen)
    for entry in entries:
        if entry.state == "running" and entry.owner != ASKED:
            raise ValueError(
                f"trial {entry.trial.number} is running and cannot be dropped: "
                "wait for its end, or end its worker first"
            )
    for entry in entries:
        if not ledger.drop(entry):
            raise RuntimeError(f"trial {entry.trial.number} was started meanwhile and is not dropped")
        if refund:
            ledger.refund(entry)
    return [entry.trial.number for entry in entries]


def _failed_for_good(record: LedgerSnapshot) -> list[LedgerEntry]:
    """Return the failed trials that a model still sees as failures, without those that were queued again."""
    retried = {entry.retry_of for entry in record.entries}
    still = {trial.number for trial in record.history.learned_from if trial.value is None}
    return [record.entries[number] for number in sorted(still - retried)]


def _entries(record: LedgerSnapshot, chosen: Chosen) -> list[LedgerEntry]:
    """Return the entries of trials that a user names; raise TypeError or KeyError if one of them is none."""
    several = [chosen] if isinstance(chosen, Trial) or not isinstance(chosen, Iterable) else list(chosen)
    numbers = [each.number if isinstance(each, Trial) else each for each in several]
    for number in numbers:
        if not is_whole(number):
            raise TypeError(f"trials are named by their numbers or given as trials, got {number!r}")
        if not 0 <= number < len(record.entries):
            raise KeyError(f"there is no trial {number}; the study has {len(record.entries)}")
    return [record.entries[number] for number in dict.fromkeys(numbers)]
