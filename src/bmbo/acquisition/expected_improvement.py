"""Expected improvement at the top fidelity over the best value observed there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import PRNGKeyArray

from bmbo.acquisition.recommendation import most_improving
from bmbo.history import History, Query
from bmbo.history.dataset import scales_of
from bmbo.problem import Problem
from bmbo.protocols import Posterior, Select


@dataclass(frozen=True)
class Improvement(Select):
    """Chooses the point of the top fidelity that most improves on the best value and on what is in flight.

    One query at a time.

    Args:
        best: the value to improve upon, standardised; where none is known, the mean of all that could be.
        known: points that were tried, to begin from.
    """

    best: float = 0.0
    known: tuple[tuple[float, ...], ...] = ()

    def given(self, history: History) -> "Improvement":
        """The same for what a history knows."""
        top, best = history.problem.ladder.top, history.best
        if best is None:
            return replace(self, best=0.0, known=())
        value = scales_of(history)[top].standardised(history.problem.sign * (best.value or 0.0))
        known = tuple(trial.query.unit for trial in history.told if trial.query.level == top)
        return replace(self, best=value, known=known)

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> list[Query]:
        """See `Select`."""
        top = problem.ladder.top
        taken = [query.unit for query in pending if query.level == top]
        unit = most_improving(key, posterior, problem, self.best, known=self.known, taken=taken)
        return [Query(unit, top)][:num]
