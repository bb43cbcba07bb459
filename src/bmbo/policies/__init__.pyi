from .bayesian_optimisation import Bayes
from .device_and_cache import OnDevice
from .random_search import Random
from .screening import Screening
from .top_fidelity_only import TopOnly
from .warm_started_fits import WarmStart

__all__ = [
    "Bayes",
    "OnDevice",
    "Random",
    "Screening",
    "TopOnly",
    "WarmStart",
]
