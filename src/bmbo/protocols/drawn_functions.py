"""Promise functions that are drawn jointly over all levels, with JAX: what learns them, and what selects by them."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.history import Dataset, History, Query


@runtime_checkable
class Posterior(Protocol):
    """Offer functions drawn jointly over all levels: the same functions at every call, differentiable, a pytree.

    Values are standardised per level, and larger is better.
    """

    def draw(self, unit: Float[Array, "q d"]) -> Float[Array, "s q m"]:
        """Return every drawn function at every level of shared points."""
        ...

    def draw_each(self, unit: Float[Array, "s q d"]) -> Float[Array, "s q m"]:
        """Return each drawn function at its own points."""
        ...

    @property
    def noise(self) -> Float[Array, " m"]:
        """Return the expected variance of an observation about its function, per level."""
        ...


@runtime_checkable
class Surrogate(Protocol):
    """Learn a posterior from data."""

    def fit(self, key: PRNGKeyArray, data: Dataset, warm: Any = None) -> tuple[Posterior, Any, Any]:
        """Return the posterior, a start for the next fit, and a report about this fit.

        `warm` is the start that an earlier fit to a part of the same data returned. None is always allowed.
        """
        ...


@runtime_checkable
class Select(Protocol):
    """Choose what to run next from a posterior."""

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """Return at most `num` queries.

        Args:
            key: for all random choices.
            posterior: what was learned.
            data: the standardised observations that it was learned from, with their scales.
            history: all that is known; trials in flight are places of the batch that are already taken.
            num: how many queries are wanted.
        """
        ...


@runtime_checkable
class BudgetedSelect(Select, Protocol):
    """Describe a selector that plans with what is left of a run."""

    def with_left(self, budget: float, trials: float) -> Select:
        """Return the same selector, when all further queries may cost `budget` and there may be `trials` of them."""
        ...
