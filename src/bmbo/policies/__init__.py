"""Policies: from what is known to what to run next."""

from bmbo.policies.adaptive import Adaptive
from bmbo.policies.bayes import Bayes
from bmbo.policies.random import Random
from bmbo.policies.top_only import TopOnly

__all__ = ["Adaptive", "Bayes", "Random", "TopOnly"]
