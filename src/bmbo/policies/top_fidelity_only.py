"""Show a policy the top fidelity alone, so that a single-fidelity method can run on a multi-fidelity problem."""

from dataclasses import dataclass, replace
from typing import Any

from bmbo.history import History, Query
from bmbo.problem import Ladder, Problem
from bmbo.protocols import Recommendation, Recommending, Starting


@dataclass(frozen=True)
class TopOnly:
    """Run another policy as if the top fidelity were the only one; trials of lower levels are left out."""

    policy: Recommending

    def start_sizes(self, problem: Problem) -> tuple[int, ...]:
        """See `Starting`."""
        if not isinstance(self.policy, Starting):
            return ()
        at_top = sum(self.policy.start_sizes(only_top(problem)))
        return (*(0 for _ in range(problem.ladder.top)), at_top)

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        queries, carry = self.policy.suggest(seed, top_of(history), num, carry)
        return [replace(query, level=history.problem.ladder.top) for query in queries], carry

    def recommendation(self, seed: int, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """See `Recommending`."""
        return self.policy.recommendation(seed, top_of(history), carry)


def top_of(history: History) -> History:
    """Return the trials of the top fidelity, numbered anew, for a problem with this fidelity alone."""
    problem = history.problem
    top = problem.ladder.top
    kept = [trial for trial in history.trials if trial.query.level == top]
    trials = tuple(
        replace(trial, number=number, query=replace(trial.query, level=0)) for number, trial in enumerate(kept)
    )
    return History(only_top(problem), trials)


def only_top(problem: Problem) -> Problem:
    """Return the problem with its top fidelity alone."""
    return replace(problem, ladder=Ladder([problem.ladder[problem.ladder.top]]))
