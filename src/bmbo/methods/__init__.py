"""Name the methods: each function puts a policy together from a way to learn and a way to select.

Every method can be given to a study:

    >>> study = bmbo.create_study(..., method=bmbo.methods.mf_mes())
"""

from bmbo.lazy_names import attach

# Names are listed in the stub, and loaded when they are first used: whoever uses none of the methods of `jax_methods`
# does not wait for JAX.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
