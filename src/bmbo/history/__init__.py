"""Hold what is known: queries, their outcomes, the history of both, and the arrays that a surrogate learns from."""

import lazy_loader

# Names are listed in the stub, and loaded when they are first used: `Dataset` and `Scale` load JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
