"""Policies: from what is known to what to run next."""

from bmbo.policies.bayes import Bayes
from bmbo.policies.random import Random

__all__ = ["Bayes", "Random"]
