"""Check in a test, with one call, that your own policy, surrogate or executor does what bmbo expects.

A failed check raises an AssertionError with a sentence.
"""

from bmbo.lazy_names import attach

# Names are listed in the stub, and loaded when they are first used: `check_surrogate` loads JAX.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
