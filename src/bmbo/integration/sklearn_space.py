"""Read the parameters of a search as scikit-learn's users write them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bmbo.problem import Categorical, Float, Int, Space
from bmbo.problem.foreign_spaces import as_space

PLAIN = (str, bool, int, float, type(None), np.generic)
"""Kinds of choices that a study can hold. Others, such as tuples and estimators, are held by their text."""


class SearchedSpace:
    """Hold the parameters of a search as a space, and give back the values that the user wrote.

    A parameter may be one of bmbo or Optuna, a list of choices, or a distribution of SciPy: `uniform`, `loguniform` or
    `randint`.
    """

    def __init__(self, distributions: object) -> None:
        if not isinstance(distributions, Mapping) or not distributions:
            raise TypeError(f"param_distributions must be a mapping from names to parameters, got {distributions!r}")
        self._choices: dict[str, dict[str, Any]] = {}
        self.space: Space = as_space({name: self._parameter(str(name), given) for name, given in distributions.items()})

    def values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration of the space with the values that the user wrote."""
        return {name: self._choices[name][value] if name in self._choices else value for name, value in params.items()}

    def _parameter(self, name: str, given: Any) -> Any:
        if hasattr(given, "dist") and hasattr(given, "support"):
            return _of_scipy(name, given)
        if isinstance(given, np.ndarray):
            given = given.tolist()
        if not isinstance(given, Sequence) or isinstance(given, str):
            return given
        if all(isinstance(choice, PLAIN) for choice in given):
            return Categorical(given)
        self._choices[name] = {repr(choice): choice for choice in given}
        return Categorical([repr(choice) for choice in given])


def _of_scipy(name: str, given: Any) -> Float | Int:
    """Return the parameter with the range of a frozen distribution of SciPy."""
    kind, (low, high) = given.dist.name, given.support()
    if kind == "randint":
        return Int(int(low), int(high))
    if kind in ("uniform", "loguniform", "reciprocal"):
        return Float(float(low), float(high), log=kind != "uniform")
    raise TypeError(
        f"parameter {name!r}: of SciPy's distributions uniform, loguniform and randint are known, got {kind}; "
        "write a bmbo.Float or bmbo.Int"
    )
