"""Hold what is known: queries, their outcomes, the history of both, and the arrays that a surrogate learns from."""

from bmbo.lazy_names import attach

# Names are listed in the stub, and loaded when they are first used: `Dataset` and `Scale` load JAX.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
