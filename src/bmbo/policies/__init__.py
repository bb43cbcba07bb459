"""Map what is known to what to run next."""

from bmbo.lazy_names import attach

# Names are listed in the stub, and loaded when they are first used: all but `Screening` load JAX.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
