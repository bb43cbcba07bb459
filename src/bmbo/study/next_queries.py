"""Decide what to run next. This is a pure function of what is known, so that stop, crash, resume and replay agree.

Studies and the experiments of this repository plan by this one function.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bmbo.history import History, Query
from bmbo.history.same_point import same_configuration
from bmbo.protocols import Budgeted, Policy, Recommending, SelfConfirming
from bmbo.study.budget_messages import remains_text
from bmbo.study.limits import Limits, affordable

CONFIRMS = "confirms"
"""Tag of the query that runs the recommendation at the top."""


@dataclass(frozen=True)
class Step:
    """Hold what comes next: queries, or nothing yet, or the reason why there is nothing more.

    Attributes:
        queries: to be run.
        finished: why the run is over, in words; None while it goes on.
        carry: the policy's cache.
    """

    queries: tuple[Query, ...] = ()
    finished: str | None = None
    carry: Any = None


def next_step(
    seed: int, history: History, limits: Limits, policy: Policy, *, num: int, busy: int, carry: Any = None
) -> Step:
    """Return at most `num` queries within the limits; at the end the recommendation, when nothing else is under way.

    Args:
        seed: the study's own.
        history: all that is known.
        limits: of the run.
        policy: what suggests.
        num: how many queries are wanted.
        busy: trials in flight that this run will see finished. A user's own trials are not among them.
        carry: the policy's cache.
    """
    costs = history.priced.ladder.costs
    trials, cost = limits.reserve(costs) if _may_need_confirming(policy, history) else (0, 0.0)
    room, budget = limits.room(history), limits.left(history)
    policy = within_limits(policy, limits, history)
    searching = _search(seed, history, policy, num=int(min(num, room - trials)), budget=budget - cost, carry=carry)
    if searching.queries or (searching.finished is None and history.pending):
        return searching
    if busy:
        return replace(searching, finished=None)
    closing = _closing(seed, history, limits, policy, searching.carry)
    if closing.finished is None or not (trials or cost) or budget < history.prices.least_at_top:
        return closing
    # There is nothing to confirm, so what was kept for that is there to search with.
    more = _search(seed, history, policy, num=int(min(num, room)), budget=budget, carry=closing.carry)
    return more if more.queries else closing


def within_limits(policy: Policy, limits: Limits, history: History) -> Policy:
    """Return the policy as it plans under the limits of a run."""
    return policy.within(limits.total_cost, limits.most_trials(history)) if isinstance(policy, Budgeted) else policy


def _may_need_confirming(policy: Policy, history: History) -> bool:
    """Return whether the recommendation of a policy may be something that was never evaluated at the top.

    Of several objectives nothing is recommended: the answer is the front of what was evaluated there.
    """
    if history.problem.objectives:
        return False
    if isinstance(policy, SelfConfirming):
        return not policy.recommends_evaluated
    return isinstance(policy, Recommending)


def _search(seed: int, history: History, policy: Policy, *, num: int, budget: float, carry: Any) -> Step:
    """Return what the policy suggests within a budget; `finished` says why nothing can be run."""
    prices = history.prices
    # A policy that plans with its budget asks for nothing that cannot lead to an evaluation at the top any more.
    least = prices.least_at_top if isinstance(policy, Budgeted) else prices.least
    if num < 1 or budget < least:
        return Step(finished="the limits are reached", carry=carry)
    queries, carry = policy.suggest(seed, history, num, carry)
    kept = affordable(queries, lambda query: prices.of(query.unit, query.level), budget)
    return Step(tuple(kept), "no query is affordable" if queries and not kept else None, carry)


def _last_tag(history: History) -> Mapping[str, Any]:
    return history.kept[-1].query.tag if history.kept else {}


def _closing(seed: int, history: History, limits: Limits, policy: Policy, carry: Any) -> Step:
    """Return the recommendation at the top, unless it has been run or cannot be run."""
    spent = _spent_text(history, limits)
    if not isinstance(policy, Recommending) or history.problem.objectives:
        return Step(finished=spent, carry=carry)
    if not history.done:
        return Step(finished=f"{spent}; no trial gave a value", carry=carry)
    last = history.kept[-1]
    if CONFIRMS in _last_tag(history):
        said = f"gave {last.value:g}" if last.value is not None else "failed"
        return Step(finished=f"{spent}; trial {last.number} confirmed the recommendation and {said}", carry=carry)
    found, carry = policy.recommendation(seed, history, carry)
    space, top = history.problem.space, history.problem.ladder.top
    # As the ledger will have it, which may differ in the last digits from a point that a trial has.
    unit = space.encode(space.decode(found.unit))
    at_top = [trial for trial in history.kept if trial.query.level == top]
    known = [t.number for t in at_top if any(same_configuration(t.query.unit, each) for each in (found.unit, unit))]
    if known:
        return Step(finished=f"{spent}; the recommendation has been run at the top, as trial {known[0]}", carry=carry)
    if limits.room(history) < 1 or limits.left(history) < history.prices.of(unit, top):
        return Step(finished=f"{spent}; nothing is left to confirm the recommendation with", carry=carry)
    return Step((Query(unit, top, {CONFIRMS: True}),), carry=carry)


def _spent_text(history: History, limits: Limits) -> str:
    budget = "" if limits.total_cost is None else f" of {limits.total_cost:g}"
    return f"{len(history.trials)} trials for a cost of {history.spent:g}{budget}{remains_text(history, limits)}"
