"""Note which checkpoints are gone, so that what should go on from them is planned, and paid, as training anew."""

import logging
from pathlib import Path

from bmbo.history import History
from bmbo.ledger import Ledger, LedgerSnapshot
from bmbo.study.checkpoints import folder_for

logger = logging.getLogger("bmbo")


def without_lost(ledger: Ledger, root: Path, snapshot: LedgerSnapshot) -> LedgerSnapshot:
    """Note the checkpoints that waiting trials need and that are gone, and return the record after that.

    Args:
        ledger: the record of the study.
        root: where the study keeps checkpoints.
        snapshot: the record as it was read.
    """
    # Without one checkpoint, a trial may go on from a lower one, which may be gone too.
    while lost := _lost(root, snapshot.history, snapshot):
        for number in sorted(lost):
            logger.warning("the checkpoint of trial %d is gone: what should go on from it begins lower or anew", number)
            ledger.note_lost(number)
        snapshot = ledger.read()
    return snapshot


def _lost(root: Path, history: History, snapshot: LedgerSnapshot) -> set[int]:
    """Return the numbers of the trials from which waiting ones should go on, but whose folders are gone."""
    if not history.problem.continues:
        return set()
    prices, queries = history.prices, [entry.trial.query for entry in snapshot.waiting]
    sources = {prices.source(query.unit, query.level) for query in queries}
    return {number for number in sources if number is not None and not folder_for(root, number).is_dir()}
