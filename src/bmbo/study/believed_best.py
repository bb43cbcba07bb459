"""Describe what a model recommends, with what was observed of it."""

import math

from bmbo.history import History, TrialRecord
from bmbo.history.repeated_runs import runs_of, standard_error
from bmbo.protocols import Recommendation
from bmbo.study.short_text import short_text
from bmbo.study.trial import StudyRecommendation


def recommended_of(history: History, found: Recommendation) -> StudyRecommendation:
    """Return a recommendation of a method for users: its configuration, its value, and its runs at the top."""
    space = history.problem.space
    config = space.decode(found.unit)
    # As the ledger has it, which may differ in the last digits from what a method says.
    runs = runs_of(history, [found.unit, space.encode(config)], history.problem.ladder.top)
    values = [trial.value for trial in runs if trial.value is not None]
    return StudyRecommendation(
        config,
        found.mean,
        found.std,
        tuple(trial.number for trial in runs),
        math.fsum(values) / len(values) if values else None,
        standard_error(history, runs),
    )


def runs_text(recommended: StudyRecommendation) -> str:
    """Return in words what was observed of a configuration that was run at the top."""
    if recommended.mean is None:
        return "it was not run there"
    mean = short_text(recommended.mean)
    if len(recommended.trials) == 1:
        return f"its only run there, trial {recommended.trials[0]}, gave {mean}"
    error = recommended.standard_error
    known = "" if error is None else f", with a standard error of {error:.2g}"
    numbers = ", ".join(map(str, recommended.trials))
    return f"its {len(recommended.trials)} runs there (trials {numbers}) gave {mean} on average{known}"


def luck_text(recommended: StudyRecommendation, best: TrialRecord) -> str:
    """Return in words what the best observed value at the top has to do with a recommendation."""
    value = short_text(best.value)
    if best.number in recommended.trials:
        return f"the best value observed there is {value}, of trial {best.number}, which is one of its runs"
    return (
        f"trial {best.number} gave {value}, the best value observed there, but the model trusts that less: "
        "the best of many noisy values is often luck"
    )
