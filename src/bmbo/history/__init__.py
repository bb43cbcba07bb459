"""Hold what is known: queries, their outcomes, the history of both, and the arrays that a surrogate learns from."""

from bmbo.history.dataset import Dataset
from bmbo.history.trials import History, Outcome, Query, TrialRecord
from bmbo.history.value_scaling import Scale

__all__ = ["Dataset", "History", "Outcome", "Query", "Scale", "TrialRecord"]
