"""Optimise expensive functions in batches over several fidelities, with costs and non-linear surrogates."""

import warnings
from typing import Any

# Loaded at once: it sets up what runs say, for those too who never mention it.
from bmbo import logging as logging
from bmbo.lazy_names import attach

__version__ = "0.1.0"

# Names are listed in the stub beside this file, and loaded when they are first used, so that nobody waits for JAX who
# uses no method that needs it.
_load, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Return a public name, or one of an earlier version; raise AttributeError for all others."""
    if name == "StudyTrial":
        warnings.warn("bmbo.StudyTrial is now bmbo.Trial", DeprecationWarning, stacklevel=2)
        name = "Trial"
    return _load(name)
