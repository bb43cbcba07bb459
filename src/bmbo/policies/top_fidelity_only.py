"""A multi-fidelity problem as a single-fidelity method sees it."""

from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import PRNGKeyArray

from bmbo.acquisition.recommendation import Recommendation
from bmbo.history import History, Query
from bmbo.policies.bayesian_optimisation import Bayes
from bmbo.problem import Ladder


@dataclass(frozen=True)
class TopOnly(Bayes):
    """As `Bayes` if the top fidelity were all there is; what is known of lower ones is left out."""

    def suggest(self, key: PRNGKeyArray, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        queries, carry = super().suggest(key, top_of(history), num, carry)
        return [replace(query, level=history.problem.ladder.top) for query in queries], carry

    def recommendation(self, key: PRNGKeyArray, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """See `Bayes`."""
        return super().recommendation(key, top_of(history), carry)


def top_of(history: History) -> History:
    """The trials of the top fidelity, numbered anew, of a problem that has no other."""
    problem = history.problem
    top = problem.ladder.top
    kept = [trial for trial in history.trials if trial.query.level == top]
    trials = tuple(
        replace(trial, number=number, query=replace(trial.query, level=0)) for number, trial in enumerate(kept)
    )
    return History(replace(problem, ladder=Ladder([problem.ladder[top]])), trials)
