from .drawn_functions import Posterior, Select, Surrogate
from .exact_moments import ExactPosterior, ExactSurrogate, WeightedPosteriors
from .planning import (
    Budgeted,
    Choice,
    Explaining,
    Offer,
    Policy,
    Recommendation,
    Recommending,
    SelfConfirming,
    Starting,
)
from .running_jobs import Executor, Finished

__all__ = [
    "Budgeted",
    "Choice",
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
    "Select",
    "SelfConfirming",
    "Starting",
    "Surrogate",
    "WeightedPosteriors",
]
