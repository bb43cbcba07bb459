"""Let a rule that chooses batches choose one query at a time."""

from dataclasses import dataclass

from jaxtyping import PRNGKeyArray

from bmbo.history import Dataset, History, Query
from bmbo.protocols import BudgetedSelect, Posterior, Select


@dataclass(frozen=True)
class OneAtATime(BudgetedSelect):
    """Choose a batch of one, however many queries are wanted; what is in flight still counts."""

    select: Select

    def with_left(self, budget: float, trials: float) -> "OneAtATime":
        """See `BudgetedSelect`."""
        select = self.select
        return OneAtATime(select.with_left(budget, trials)) if isinstance(select, BudgetedSelect) else self

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        return self.select(key, posterior, data, history, min(num, 1))
