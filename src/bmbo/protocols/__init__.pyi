from .drawn_functions import BudgetedSelect, Posterior, Select, Surrogate
from .exact_moments import ExactPosterior, ExactSurrogate, WeightedPosteriors
from .planning import (
    Budgeted,
    Choice,
    Demanding,
    Explaining,
    Offer,
    Policy,
    Recommendation,
    Recommending,
    SelfConfirming,
    Starting,
)
from .running_jobs import Executor, Finished, RunningApart

__all__ = [
    "Budgeted",
    "BudgetedSelect",
    "Choice",
    "Demanding",
    "ExactPosterior",
    "ExactSurrogate",
    "Executor",
    "Explaining",
    "Finished",
    "Offer",
    "Policy",
    "Posterior",
    "Recommendation",
    "Recommending",
    "RunningApart",
    "Select",
    "SelfConfirming",
    "Starting",
    "Surrogate",
    "WeightedPosteriors",
]
