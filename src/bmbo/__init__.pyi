from . import (
    acquisition,
    executors,
    history,
    inference,
    ledger,
    logging,
    methods,
    policies,
    problem,
    protocols,
    study,
    surrogates,
)
from .history import History, Outcome, Query
from .methods import bmbo_darn, bmbo_gp, random_search, screening
from .problem import Categorical, Fidelity, Float, Int, Ladder, Problem, Space
from .study import (
    Study,
    StudyRecommendation,
    TooManyFailuresError,
    Trial,
    create_study,
    delete_study,
    load_study,
)

__version__: str

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
    "TooManyFailuresError",
    "Trial",
    "acquisition",
    "bmbo_darn",
    "bmbo_gp",
    "create_study",
    "delete_study",
    "executors",
    "history",
    "inference",
    "ledger",
    "load_study",
    "logging",
    "methods",
    "policies",
    "problem",
    "protocols",
    "random_search",
    "screening",
    "study",
    "surrogates",
]
