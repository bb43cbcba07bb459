"""Use one surrogate for few observations and another for many."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import PRNGKeyArray

from bmbo.history import Dataset
from bmbo.problem.number_checks import whole_number
from bmbo.protocols import Posterior, Surrogate


@dataclass(frozen=True)
class Warm:
    """Hold what the next fit may start from, and which of the two surrogates made it."""

    size: Literal["small", "large"]
    warm: Any


@dataclass(frozen=True)
class BySize:
    """Learn with `small` up to `limit` observations, failed ones included, and with `large` beyond.

    The cost of a Gaussian process grows with the cube of the number of observations, that of a network in proportion to
    it.
    """

    small: Surrogate
    large: Surrogate
    limit: int = 400

    def __post_init__(self) -> None:
        whole_number("limit", self.limit)

    def fit(self, key: PRNGKeyArray, data: Dataset, warm: Warm | None = None) -> tuple[Posterior, Warm, Any]:
        """See `Surrogate`; a warm start that the other surrogate made is not used."""
        size: Literal["small", "large"] = "small" if int(np.sum(np.asarray(data.mask))) <= self.limit else "large"
        surrogate = self.small if size == "small" else self.large
        known = warm.warm if warm is not None and warm.size == size else None
        posterior, found, info = surrogate.fit(key, data, known)
        return posterior, Warm(size, found), info
