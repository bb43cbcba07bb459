"""Batch multi-fidelity Bayesian optimisation with deep auto-regressive networks."""

from bmbo.methods import bmbo_darn, bmbo_gp, random_search
from bmbo.problem import Fidelity, Ladder, Problem
from bmbo.space import Categorical, Float, Int, Space
from bmbo.study import Study, create_study, load_study
from bmbo.trial import History, Outcome, Query, Trial
from bmbo.views import StudyRecommendation, StudyTrial

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
    "StudyTrial",
    "Trial",
    "bmbo_darn",
    "bmbo_gp",
    "create_study",
    "load_study",
    "random_search",
]
