"""Say in words how a run goes, and how it ended: pure functions of what is known."""

from bmbo.history import History, TrialRecord
from bmbo.history.same_point import same_configuration
from bmbo.study.believed_best import luck_text, runs_text
from bmbo.study.front_messages import front_answer, place_on_front, values_text
from bmbo.study.limits import Limits, counted
from bmbo.study.short_text import duration, params_line, short_text
from bmbo.study.trial import StudyRecommendation


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
        f"trial {number}:{level} {values_text(history.problem, trial)}{measured_text(history, trial)} in {took} "
        f"({_best_text(history, trial)}{spent_line(history, limits)})"
    )


def measured_text(history: History, trial: TrialRecord) -> str:
    """Return the measured values of a trial, and whether they keep the constraints; empty without constraints."""
    constraints = history.problem.constraints
    measured = () if trial.outcome is None else trial.outcome.measured
    shown = [
        f"{limit.name} {short_text(value)}{f', not {limit.relation} {short_text(limit.bound)}' if beyond > 0 else ''}"
        for limit, value, beyond in zip(constraints, measured, history.violations(trial), strict=False)
    ]
    return f" ({'; '.join(shown)})" if shown else ""


def _best_text(history: History, trial: TrialRecord) -> str:
    """Return the best value at the top, or that this trial has it."""
    if history.problem.objectives:
        return place_on_front(history, trial)
    at_top = " at the top" if history.problem.ladder.top else ""
    if history.best is None:
        return f"nothing{' feasible' * bool(history.at_top)}{at_top} yet, "
    kind = "best observed" if history.problem.noisy else "best"
    best = f"the {kind}{at_top} so far" if history.best == trial else f"{kind}{at_top} {short_text(history.best.value)}"
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


def no_best_line(history: History) -> str:
    """Return why no trial is the best one at the top."""
    ladder = history.problem.ladder
    top = f"the top fidelity ({ladder[ladder.top].name})"
    nearest = history.least_infeasible if history.problem.constraints else None
    if nearest is not None:
        return (
            f"no trial at {top} keeps all constraints; trial {nearest.number} comes nearest"
            f"{measured_text(history, nearest)} with {values_text(history.problem, nearest)}"
        )
    failed = [trial for trial in history.failed if trial.query.level == ladder.top]
    if failed and failed[-1].outcome is not None:
        how_many = "the only one" if len(failed) == 1 else f"all {len(failed)}"
        return (
            f"no trial at {top} has a value: {how_many} failed, trial {failed[-1].number}: {failed[-1].outcome.error}"
        )
    return f"no trial at {top} has finished yet"


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
    if recommended is None or (best is None and history.at_top):
        return _observed(history)
    expects = f"the model expects {short_text(recommended.value)} ± {recommended.std:.2g}"
    use = f"use {params_line(recommended.params)}"
    if best is None:
        return f"{use}: {expects}{at_top}, where no trial has given a value yet"
    if history.problem.noisy and recommended.trials:
        return f"{use}: {expects}{at_top}; {runs_text(recommended)}; {luck_text(recommended, best)}"
    return _compared(history, recommended, best)


def _compared(history: History, recommended: StudyRecommendation, best: TrialRecord) -> str:
    """Return the answer of a model beside the best value at the top."""
    at_top = " at the top" if history.problem.ladder.top else ""
    expects = f"the model expects {short_text(recommended.value)} ± {recommended.std:.2g}"
    use = f"use {params_line(recommended.params)}"
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
    """Return the answer without a model: the best value at the top, or why there is none."""
    best, problem = history.best, history.problem
    at_top = " at the top" if problem.ladder.top else ""
    if problem.objectives and history.front:
        return front_answer(history)
    if best is None and history.at_top:
        return f"there is no answer yet: {no_best_line(history)}"
    if best is None:
        return f"no trial{at_top} has given a value, so there is no answer yet"
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
        for trial in history.at_top
        if same_configuration(trial.query.unit, unit) and history.keeps_constraints(trial)
    ]
    return max(runs, key=lambda trial: problem.sign * (trial.value or 0.0), default=None)
