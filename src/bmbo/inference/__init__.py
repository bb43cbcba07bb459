"""Draw parameters of a network from their posterior, by several methods behind one interface."""

from bmbo.lazy_names import attach

# Names are listed in the stub, and loaded when they are first used: all of them load JAX.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
