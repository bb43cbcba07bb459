"""Hold what is known: queries, their outcomes, the history of both, and the arrays that a surrogate learns from."""

from bmbo.history.dataset import Dataset
from bmbo.history.scaling import Scale
from bmbo.history.trials import History, Outcome, Query, TrialRecord

__all__ = ["Dataset", "History", "Outcome", "Query", "Scale", "TrialRecord"]
