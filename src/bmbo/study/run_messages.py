"""Say in words how a run begins, how it goes, and how it ended: pure functions of what is known."""

from bmbo.history import History, TrialRecord
from bmbo.history.same_point import same_configuration
from bmbo.problem import Problem
from bmbo.protocols import Budgeted, Policy, Starting
from bmbo.study.limits import ADDED, Limits, counted
from bmbo.study.short_text import duration, params_line, short_text
from bmbo.study.trial import StudyRecommendation


def start_line(policy: Policy, history: History, limits: Limits) -> str | None:
    """Return how a new study begins, and what share of the limits that takes; None if it has begun, or has no start."""
    if any(ADDED not in trial.query.tag for trial in history.told):
        return None
    if isinstance(policy, Budgeted):
        policy = policy.within(limits.total_cost, limits.most_trials(history))
    sizes = policy.start_sizes(history.priced) if isinstance(policy, Starting) else ()
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


def trial_line(history: History, number: int, limits: Limits) -> str:
    """Return what a finished trial gave, in one line, with the best value and how much is spent."""
    trial = history.trials[number]
    outcome = trial.outcome
    if outcome is None:
        raise ValueError(f"trial {number} has not finished")
    ladder = history.problem.ladder
    level = f' level "{ladder[trial.query.level].name}"' if ladder.top else ""
    took = duration(outcome.seconds)
    if outcome.value is None:
        return f"trial {number}:{level} failed after {took}: {outcome.error} ({spent_line(history, limits)})"
    return (
        f"trial {number}:{level} value {short_text(outcome.value)} in {took} "
        f"({_best_text(history, trial)}{spent_line(history, limits)})"
    )


def _best_text(history: History, trial: TrialRecord) -> str:
    """Return the best value at the top, or that this trial has it."""
    at_top = " at the top" if history.problem.ladder.top else ""
    if history.best is None:
        return f"nothing{at_top} yet, "
    best = f"the best{at_top} so far" if history.best == trial else f"best{at_top} {short_text(history.best.value)}"
    return f"{best}, "


def spent_line(history: History, limits: Limits) -> str:
    """Return how many trials have finished and what they cost, and of how much."""
    cost = f"cost {short_text(history.spent)}"
    if limits.total_cost is not None:
        cost += f" of {short_text(limits.total_cost)}"
    if limits.n_trials is None:
        return cost
    finished = counted(trial for trial in history.trials if trial.outcome is not None)
    return f"{finished} of {limits.n_trials} trials, {cost}"


def answer(history: History, recommended: StudyRecommendation | None) -> str:
    """Return which configuration to use, how sure that is, and why it is or is not the best observed.

    Args:
        history: all that is known.
        recommended: the model's choice; None for a method without a model.
    """
    best, at_top = history.best, " at the top" if history.problem.ladder.top else ""
    if not history.done:
        failed = history.failed
        reason = f"; trial {failed[-1].number}: {failed[-1].outcome.error}" if failed and failed[-1].outcome else ""
        return f"no trial has given a value, so there is no answer{reason}"
    if recommended is None:
        return f"no trial{at_top} has given a value, so there is no answer yet" if best is None else _observed(history)
    expects = f"the model expects {short_text(recommended.value)} ± {recommended.std:.2g}"
    use = f"use {params_line(recommended.params)}"
    if best is None:
        return f"{use}: {expects}{at_top}, where no trial has given a value yet"
    own = _best_run_of(history, recommended)
    if own is not None and own.value == best.value:
        return f"{use}: trial {own.number} gave {short_text(own.value)}, the best value{at_top}, and {expects}"
    run = "it was not run there" if own is None else f"trial {own.number} gave {short_text(own.value)} there"
    known = f"trial {best.number} gave {short_text(best.value)}, the best value{at_top}"
    if own is None and history.problem.sign * (recommended.value - (best.value or 0.0)) > 0:
        return f"{use}: {expects}{at_top}; {run}; {known}"
    chance = "but the model trusts that less: the best of many values is often luck"
    return f"{use}: {expects}{at_top}; {run}; {known}, {chance}"


def _observed(history: History) -> str:
    """Return the answer of a method without a model: the best value at the top."""
    best, problem = history.best, history.problem
    if best is None:
        raise ValueError("no trial at the top has a value")
    at_top = " at the top" if problem.ladder.top else ""
    return (
        f"use {params_line(problem.space.decode(best.query.unit))}: trial {best.number} gave {short_text(best.value)}, "
        f"the best value{at_top}; the method has no model, so how much of that is chance is not known"
    )


def _best_run_of(history: History, recommended: StudyRecommendation) -> TrialRecord | None:
    """Return the trial with the best value among those of the recommended configuration at the top."""
    problem = history.problem
    unit = problem.space.encode(recommended.params)
    runs = [
        trial
        for trial in history.done
        if trial.query.level == problem.ladder.top and same_configuration(trial.query.unit, unit)
    ]
    return max(runs, key=lambda trial: problem.sign * (trial.value or 0.0), default=None)
