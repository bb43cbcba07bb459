"""The record of a study in an Optuna storage, shared by any number of processes."""

from bmbo.ledger.book import Ledger, Run
from bmbo.ledger.identity import Owner, Watch
from bmbo.ledger.lease import Lease
from bmbo.ledger.mapping import ASKED, Entry, Record
from bmbo.ledger.storage import Storage, folder_of, open_storage, redacted

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
