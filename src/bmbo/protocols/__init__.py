"""Define the whole contract between the parts, one file for each pair of parts that meet.

Shape letters, the same in every file: n observations (padded), d cube coordinates, m levels, q places in a batch or
points in a set, s draws, c chains, p parameters of one draw, r restarts, b rows of a batched optimisation, f imagined
futures.
"""

from bmbo.lazy_names import attach

# A name is loaded when it is first used: JAX then loads only with `drawn_functions`. The stub beside this file, with
# the ending .pyi, is the list of the names, for Python as for type checkers.
__getattr__, __dir__, __all__ = attach(__name__, __file__)
