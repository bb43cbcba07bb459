"""Map what is known to what to run next."""

import lazy_loader

# Names are listed in the stub, and loaded when they are first used: all but `Screening` load JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
