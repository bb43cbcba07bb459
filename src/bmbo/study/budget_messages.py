"""Say in words what the limits of a run buy: before it, how it begins and what is amiss; after it, what is left."""

from dataclasses import replace

from bmbo.history import History
from bmbo.problem import Problem
from bmbo.protocols import Budgeted, Policy, Starting
from bmbo.study.limits import ADDED, Limits, counted
from bmbo.study.short_text import short_text

FEWEST_CHOSEN = 3
"""Evaluations at the top after the start: with fewer, a model has hardly chosen anything."""

ROUNDS = 100
"""Tries to find a budget that would do: a start grows with its budget, but slower."""


def start_line(policy: Policy, history: History, limits: Limits) -> str | None:
    """Return how a new study begins, and what share of the limits that takes; None if it has begun, or has no start."""
    if _has_begun(history):
        return None
    sizes = _start_sizes(policy, history, limits)
    if not sum(sizes):
        return None
    ladder = history.problem.ladder
    parts = [f'{size} at "{ladder[level].name}"' for level, size in enumerate(sizes) if size]
    trials = f"{sum(sizes)} trials ({', '.join(parts)})" if ladder.top else f"{sum(sizes)} trials"
    return f"the start: {trials}{_share_text(sizes, history.problem, limits)}; after that the model chooses"


def _share_text(sizes: tuple[int, ...], problem: Problem, limits: Limits) -> str:
    """Return which share of the limits a start takes."""
    shares: list[str] = []
    if limits.total_cost is not None and not problem.ladder.measured:
        cost = sum(size * each for size, each in zip(sizes, problem.ladder.costs, strict=True))
        share = f"{100 * cost / limits.total_cost:.0f} %"
        shares.append(f"cost {short_text(cost)} of {short_text(limits.total_cost)}, {share} of the budget")
    if limits.n_trials is not None:
        shares.append(f"{sum(sizes)} of {limits.n_trials} trials")
    return "".join(f", {share}" for share in shares)


def too_small_line(policy: Policy, history: History, limits: Limits) -> str | None:
    """Return that the model of a new study will choose next to nothing, and what would do; None if all is well."""
    if history.problem.ladder.measured:
        # Nobody knows yet what a cost in seconds buys.
        limits = replace(limits, total_cost=None)
    if _has_begun(history) or not sum(_start_sizes(policy, history, limits)):
        return None
    enough = _enough(policy, history, limits)
    given = {"total_cost": limits.total_cost, "n_trials": limits.n_trials}
    wanted = {"total_cost": enough.total_cost, "n_trials": enough.n_trials}
    small = [name for name, limit in given.items() if limit is not None and limit < (wanted[name] or 0)]
    if not small:
        return None
    had = " and ".join(f"{name}={short_text(given[name])}" for name in small)
    would = " and ".join(f"{name}={short_text(wanted[name])}" for name in small)
    where = " at the top" if history.problem.ladder.top else ""
    return (
        f"with {had} next to nothing can be learned: after the start, fewer than {FEWEST_CHOSEN} evaluations{where} "
        f"are left that the model chooses; {would} would do"
    )


def reached_line(policy: Policy, history: History, limits: Limits) -> str | None:
    """Return which limit is reached before a run has begun, and what to give instead; None if there is room."""
    if history.pending:
        return None
    costs = history.priced.ladder.costs
    if limits.n_trials is not None and limits.room(history) < 1:
        had = counted(history.trials)
        return (
            f"n_trials={limits.n_trials} is reached already: it counts all trials of the study, which has {had}; "
            f"n_trials={had + limits.n_trials} runs {limits.n_trials} more"
        )
    least = costs[-1] if isinstance(policy, Budgeted) else min(costs)
    if limits.total_cost is not None and limits.left(history) < least * (1.0 - 1e-9):
        total, spent = short_text(limits.total_cost), short_text(history.spent)
        return (
            f"total_cost={total} is spent already: it counts all trials of the study, which cost {spent}; "
            f"total_cost={short_text(history.spent + limits.total_cost)} spends {total} more"
        )
    return None


def counted_line(history: History, limits: Limits) -> str | None:
    """Return how much the limits leave to a run of a study that has trials already; None if it has none."""
    parts: list[str] = []
    had = counted(history.trials)
    if limits.n_trials is not None and had:
        parts.append(f"n_trials={limits.n_trials} counts the {had} trials that the study has")
    if limits.total_cost is not None and history.spent:
        spent, left = short_text(history.spent), short_text(max(limits.left(history), 0.0))
        total = short_text(limits.total_cost)
        parts.append(f"total_cost={total} counts the {spent} that was spent, so that {left} is left")
    return "; ".join(parts) or None


def remains_text(history: History, limits: Limits) -> str:
    """Return what is left of a budget at the end of a run, and why it is not spent; empty if nothing is left."""
    if limits.total_cost is None:
        return ""
    left, dearest = limits.left(history), history.priced.ladder.costs[-1]
    if left <= 1e-9 * limits.total_cost:
        return ""
    if limits.room(history) < 1:
        return f"; {short_text(left)} is left because n_trials={limits.n_trials} is reached"
    if left < dearest:
        return f"; {short_text(left)} is left, and an evaluation at the top costs {short_text(dearest)}"
    return f"; {short_text(left)} is left, for which the method asks nothing more"


def _has_begun(history: History) -> bool:
    """Return whether anything was run for this study itself."""
    return any(ADDED not in trial.query.tag for trial in history.told)


def _start_sizes(policy: Policy, history: History, limits: Limits) -> tuple[int, ...]:
    """Return how many trials of each level the start has within the limits; none for a policy without a start."""
    if isinstance(policy, Budgeted):
        policy = policy.within(limits.total_cost, limits.most_trials(history))
    return policy.start_sizes(history.priced) if isinstance(policy, Starting) else ()


def _enough(policy: Policy, history: History, limits: Limits) -> Limits:
    """Return the smallest limits at which a model chooses something; a limit that is not given stays open."""
    costs, found = history.priced.ladder.costs, limits
    # A bigger budget may bring a bigger start, which needs a bigger budget.
    for _ in range(ROUNDS):
        sizes = _start_sizes(policy, history, found)
        cost = sum(size * each for size, each in zip(sizes, costs, strict=True)) + FEWEST_CHOSEN * costs[-1]
        trials = sum(sizes) + FEWEST_CHOSEN
        needed = replace(
            found,
            total_cost=None if found.total_cost is None else max(found.total_cost, cost),
            n_trials=None if found.n_trials is None else max(found.n_trials, trials),
        )
        if needed == found:
            break
        found = needed
    return found
