"""Bayesian optimisation whose way to select depends on more of the history than the posterior tells."""

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from jaxtyping import PRNGKeyArray

from bmbo.history import History, Query
from bmbo.policies.bayesian_optimisation import Bayes
from bmbo.protocols import Select


@runtime_checkable
class Informed(Select, Protocol):
    """A way to select that a history sets."""

    def given(self, history: History) -> Select:
        """The same for what a history knows."""
        ...


@dataclass(frozen=True)
class Adaptive(Bayes):
    """As `Bayes`, with an `Informed` way to select, set by the history at every call."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.select, Informed):
            raise TypeError(f"Adaptive needs a way to select with `given`, got {type(self.select).__name__}")

    def suggest(self, key: PRNGKeyArray, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        if not isinstance(self.select, Informed):
            return super().suggest(key, history, num, carry)
        return Bayes.suggest(replace(self, select=self.select.given(history)), key, history, num, carry)
