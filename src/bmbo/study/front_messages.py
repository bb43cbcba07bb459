"""Say in words what several objectives have come to: the values of a trial, and the front."""

from bmbo.history import History, TrialRecord
from bmbo.history.front_volume import volume_of
from bmbo.problem import Problem
from bmbo.study.short_text import params_line, short_text

MOST_SHOWN = 5
"""Trials of the front that an answer names."""


def no_single_best(problem: Problem) -> str:
    """Return why there is no best trial, and what there is."""
    return (
        f"a study with {problem.num_objectives} objectives has no single best trial: study.best_trials has those that "
        "no other beats"
    )


def values_text(problem: Problem, trial: TrialRecord) -> str:
    """Return the values of a trial with the names of the objectives; without names where there is one."""
    if not problem.objectives:
        return f"value {short_text(trial.value)}"
    pairs = zip(problem.objectives, trial.values, strict=True)
    return ", ".join(f"{own.label} {short_text(value)}" for own, value in pairs)


def place_on_front(history: History, trial: TrialRecord) -> str:
    """Return how large the front at the top is, and whether a trial is on it."""
    at_top = " at the top" if history.problem.ladder.top else ""
    if not history.front:
        return f"nothing{' feasible' * bool(history.at_top)}{at_top} yet, "
    is_on = any(other.number == trial.number for other in history.front)
    return f"{'on the front' if is_on else 'front'}{at_top} of {len(history.front)}, "


def front_line(history: History) -> str:
    """Return how many trials the front has, and its hypervolume."""
    num = len(history.front)
    return f"{num} {'trial' if num == 1 else 'trials'} on the front, hypervolume {short_text(volume_of(history))}"


def front_answer(history: History) -> str:
    """Return which configurations form the front: those of the best first value, of the best last, and some between."""
    front = sorted(history.front, key=history.larger_better, reverse=True)
    at_top = " at the top" if history.problem.ladder.top else ""
    last = len(front) - 1
    places = sorted({round(place * last / (MOST_SHOWN - 1)) for place in range(MOST_SHOWN)}) if last else [0]
    shown = [
        f"trial {front[place].number} with {values_text(history.problem, front[place])} "
        f"({params_line(history.problem.space.decode(front[place].query.unit))})"
        for place in places
    ]
    if len(front) == 1:
        return f"one configuration{at_top} beats all others: {shown[0]}"
    are_all = len(shown) == len(front)
    more = "" if are_all else f"; study.best_trials and bmbo best show all {len(front)}"
    return (
        f"{len(front)} configurations form the front{at_top}: no other is as good in all objectives; choose among them"
        f"{'' if are_all else ', such as'}: {'; '.join(shown)}{more}"
    )
