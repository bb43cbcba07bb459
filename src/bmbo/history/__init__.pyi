from .dataset import Dataset
from .trial_records import History, Outcome, Query, TrialRecord
from .value_scaling import Scale

__all__ = [
    "Dataset",
    "History",
    "Outcome",
    "Query",
    "Scale",
    "TrialRecord",
]
