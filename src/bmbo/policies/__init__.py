"""Map what is known to what to run next."""

from bmbo.policies.bayesian_optimisation import Bayes
from bmbo.policies.device_and_cache import OnDevice
from bmbo.policies.random_search import Random
from bmbo.policies.screening import Screening
from bmbo.policies.top_fidelity_only import TopOnly
from bmbo.policies.warm_started_fits import WarmStart

__all__ = ["Bayes", "OnDevice", "Random", "Screening", "TopOnly", "WarmStart"]
