"""Keep the record of a study in an Optuna storage that any number of processes can share."""

from bmbo.ledger.full_disk import StorageFullError
from bmbo.ledger.ledger import Ledger
from bmbo.ledger.ledger_entries import ASKED, LedgerEntry, LedgerSnapshot, shown_owner
from bmbo.ledger.outages import StorageAwayError
from bmbo.ledger.owners import Owner, SilenceWatch
from bmbo.ledger.passwords import without_passwords
from bmbo.ledger.planner_lease import PlannerLease
from bmbo.ledger.storages import Storage, file_of, folder_of, open_storage, redacted
from bmbo.ledger.study_names import study_names

__all__ = [
    "ASKED",
    "Ledger",
    "LedgerEntry",
    "LedgerSnapshot",
    "Owner",
    "PlannerLease",
    "SilenceWatch",
    "Storage",
    "StorageAwayError",
    "StorageFullError",
    "file_of",
    "folder_of",
    "open_storage",
    "redacted",
    "shown_owner",
    "study_names",
    "without_passwords",
]
