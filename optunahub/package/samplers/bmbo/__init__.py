"""Offer the sampler and the pruner of bmbo to OptunaHub."""

from bmbo.integration.optuna import BMBOPruner, BMBOSampler

__all__ = ["BMBOPruner", "BMBOSampler"]
