"""What to run next: a pure function of what is known, so that stop, crash, resume and replay are one thing."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import PRNGKeyArray

from bmbo.history import History, Query, TrialRecord
from bmbo.policies import Bayes
from bmbo.protocols import Policy

CONFIRMS = "confirms"
"""Tag of the query that runs the recommendation at the top."""

ADDED = "added"
"""Tag of trials that were run elsewhere: no limit counts them."""


@dataclass(frozen=True)
class Limits:
    """When a run ends: cost and trials over the whole study, the seconds of `timeout` from the start of this run."""

    total_cost: float | None = None
    n_trials: int | None = None
    timeout: float | None = None

    @classmethod
    def checked(cls, total_cost: object, n_trials: object, timeout: object) -> "Limits":
        """At least one limit, each a positive number."""
        given = {"total_cost": total_cost, "n_trials": n_trials, "timeout": timeout}
        if all(limit is None for limit in given.values()):
            raise ValueError("give at least one of total_cost, n_trials and timeout, or the run would never end")
        for name, limit in given.items():
            if limit is None:
                continue
            if isinstance(limit, bool) or not isinstance(limit, int if name == "n_trials" else int | float):
                raise ValueError(f"{name} must be a {'whole ' if name == 'n_trials' else ''}number, got {limit!r}")
            if not limit > 0:
                raise ValueError(f"{name} must be positive, got {limit!r}")
        return cls(_float(total_cost), n_trials if isinstance(n_trials, int) else None, _float(timeout))

    def room(self, history: History) -> float:
        """How many more trials there may be."""
        counted = sum(ADDED not in trial.query.tag for trial in history.trials)
        return math.inf if self.n_trials is None else float(self.n_trials - counted)

    def left(self, history: History) -> float:
        """What more trials may cost: what is in flight is paid for already."""
        if self.total_cost is None:
            return math.inf
        costs = history.priced.ladder.costs
        return self.total_cost - history.spent - sum((costs[trial.query.level] for trial in history.pending), start=0.0)

    def startable(self, history: History, waiting: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Those of the trials that wait that the budget pays for: users queue what they like, and prices may rise."""
        if self.total_cost is None:
            return list(waiting)
        costs = history.priced.ladder.costs
        # What was planned to the last penny must not fail by a rounding.
        budget = self.left(history) + sum(costs[trial.query.level] for trial in waiting) + 1e-9 * self.total_cost
        kept: list[TrialRecord] = []
        for trial in waiting:
            if costs[trial.query.level] <= budget:
                budget -= costs[trial.query.level]
                kept.append(trial)
        return kept

    def reserve(self, costs: Sequence[float]) -> tuple[int, float]:
        """Trials and cost that are kept to confirm the recommendation, where that leaves something to search with."""
        trials = 1 if self.n_trials is not None and self.n_trials > 1 else 0
        enough = self.total_cost is not None and self.total_cost - costs[-1] >= min(costs)
        return trials, costs[-1] if enough else 0.0


@dataclass(frozen=True)
class Step:
    """What comes next: queries; nothing yet; or, in words, why nothing more.

    Attributes:
        queries: to be run.
        finished: why the run is over.
        carry: the policy's cache.
    """

    queries: tuple[Query, ...] = ()
    finished: str | None = None
    carry: Any = None


def next_step(
    key: PRNGKeyArray, history: History, limits: Limits, policy: Policy, *, num: int, busy: int, carry: Any = None
) -> Step:
    """At most `num` queries within the limits; in the end the recommendation, once nothing else is under way.

    Args:
        key: the study's own.
        history: all that is known.
        limits: of the run.
        policy: what suggests.
        num: queries that are wanted.
        busy: trials in flight that this run will see finished; a user's own are not among them.
        carry: the policy's cache.
    """
    costs = history.priced.ladder.costs
    trials, cost = limits.reserve(costs) if isinstance(policy, Bayes) else (0, 0.0)
    num = int(min(num, limits.room(history) - trials))
    budget = limits.left(history) - cost
    if num > 0 and budget >= min(costs):
        queries, carry = policy.suggest(key, history, num, carry)
        kept = affordable(queries, costs, budget)
        if kept or (not queries and history.pending):
            return Step(tuple(kept), carry=carry)
    if busy:
        return Step(carry=carry)
    return _closing(key, history, limits, policy, carry)


def _closing(key: PRNGKeyArray, history: History, limits: Limits, policy: Policy, carry: Any) -> Step:
    """The recommendation at the top, unless it was run or cannot be."""
    spent = _spent_text(history, limits)
    if not isinstance(policy, Bayes):
        return Step(finished=spent, carry=carry)
    if not history.done:
        return Step(finished=f"{spent}; no trial gave a value", carry=carry)
    last = history.trials[-1]
    if CONFIRMS in last.query.tag:
        said = f"gave {last.value:g}" if last.value is not None else "failed"
        return Step(finished=f"{spent}; trial {last.number} confirmed the recommendation and {said}", carry=carry)
    if limits.room(history) < 1 or limits.left(history) < history.priced.ladder.costs[-1]:
        return Step(finished=f"{spent}; nothing is left to confirm the recommendation with", carry=carry)
    found, carry = policy.recommendation(key, history, carry)
    space, top = history.problem.space, history.problem.ladder.top
    # As the ledger will have it.
    unit = space.encode(space.decode(found.unit))
    known = [t.number for t in history.trials if t.query.level == top and t.query.unit == unit]
    if known:
        return Step(finished=f"{spent}; the recommendation has been run at the top, as trial {known[0]}", carry=carry)
    return Step((Query(unit, top, {CONFIRMS: True}),), carry=carry)


def affordable(queries: Iterable[Query], costs: Sequence[float], budget: float) -> list[Query]:
    """Those of a batch that the budget pays for, in their order."""
    kept: list[Query] = []
    for query in queries:
        if costs[query.level] <= budget:
            budget -= costs[query.level]
            kept.append(query)
    return kept


def _spent_text(history: History, limits: Limits) -> str:
    budget = "" if limits.total_cost is None else f" of {limits.total_cost:g}"
    return f"{len(history.trials)} trials for a cost of {history.spent:g}{budget}"


def _float(limit: object) -> float | None:
    return float(limit) if isinstance(limit, int | float) else None
