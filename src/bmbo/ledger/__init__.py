"""The record of a study in an Optuna storage, shared by any number of processes."""

from bmbo.ledger.ledger import Ledger, Run
from bmbo.ledger.owners import Owner, Watch
from bmbo.ledger.planner_lease import Lease
from bmbo.ledger.storages import Storage, folder_of, open_storage, redacted
from bmbo.ledger.trial_mapping import ASKED, Entry, Record

__all__ = [
    "ASKED",
    "Entry",
    "Lease",
    "Ledger",
    "Owner",
    "Record",
    "Run",
    "Storage",
    "Watch",
    "folder_of",
    "open_storage",
    "redacted",
]
