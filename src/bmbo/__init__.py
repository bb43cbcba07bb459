"""Optimise expensive functions in batches over several fidelities, with costs and non-linear surrogates."""

import warnings
from typing import Any

from bmbo.history import History, Outcome, Query
from bmbo.methods import bmbo_darn, bmbo_gp, random_search, screening
from bmbo.problem import Categorical, Fidelity, Float, Int, Ladder, Problem, Space
from bmbo.study import Study, StudyRecommendation, Trial, create_study, load_study

__version__ = "0.1.0"

__all__ = [
    "Categorical",
    "Fidelity",
    "Float",
    "History",
    "Int",
    "Ladder",
    "Outcome",
    "Problem",
    "Query",
    "Space",
    "Study",
    "StudyRecommendation",
    "Trial",
    "bmbo_darn",
    "bmbo_gp",
    "create_study",
    "load_study",
    "random_search",
    "screening",
]


def __getattr__(name: str) -> Any:
    """Find names of earlier versions; raise AttributeError for all others."""
    if name == "StudyTrial":
        warnings.warn("bmbo.StudyTrial is now bmbo.Trial", DeprecationWarning, stacklevel=2)
        return Trial
    raise AttributeError(f"module 'bmbo' has no attribute {name!r}")
