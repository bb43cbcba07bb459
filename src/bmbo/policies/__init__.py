"""Policies: from what is known to what to run next."""

from bmbo.policies.adaptive import Adaptive
from bmbo.policies.bayesian_optimisation import Bayes
from bmbo.policies.random_search import Random
from bmbo.policies.top_fidelity_only import TopOnly

__all__ = ["Adaptive", "Bayes", "Random", "TopOnly"]
