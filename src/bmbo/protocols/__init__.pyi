from .drawn_functions import Posterior, Select, Surrogate
from .exact_moments import ExactPosterior, ExactSurrogate, WeightedPosteriors
from .planning import Budgeted, Policy, Recommendation, Recommending, SelfConfirming, Starting
from .running_jobs import Executor, Finished

__all__ = [
    "Budgeted",
    "ExactPosterior",
    "ExactSurrogate",
    "Executor",
    "Finished",
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
