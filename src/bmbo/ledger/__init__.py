"""Keep the record of a study in an Optuna storage that any number of processes can share."""

from bmbo.ledger.ledger import Ledger
from bmbo.ledger.owners import Owner, SilenceWatch
from bmbo.ledger.planner_lease import PlannerLease
from bmbo.ledger.storages import Storage, folder_of, open_storage, redacted
from bmbo.ledger.stored_trials import ASKED, LedgerEntry, LedgerSnapshot, shown_owner

__all__ = [
    "ASKED",
    "Ledger",
    "LedgerEntry",
    "LedgerSnapshot",
    "Owner",
    "PlannerLease",
    "SilenceWatch",
    "Storage",
    "folder_of",
    "open_storage",
    "redacted",
    "shown_owner",
]
