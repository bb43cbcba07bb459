"""Measure the front of a history by its hypervolume: how much room its trials beat, up to a reference point."""

from collections.abc import Sequence

import numpy as np

from bmbo.history.pareto_front import Floats, hypervolume, hypervolume_gain, reference_below
from bmbo.history.trial_records import History, TrialRecord


def reference_of(history: History, given: Sequence[float] | None = None) -> Floats:
    """Return the reference point with the sign that makes larger values better [k].

    What is given comes first, then what the study has. Without either, the point lies a tenth of the range of the front
    below its worst values, and is zero before there is a front.
    """
    objectives = history.problem.objectives
    known = [each.reference for each in objectives] if given is None else list(given)
    signs = np.array([each.sign for each in objectives])
    front = np.array([history.larger_better(trial) for trial in history.front])
    below = reference_below(front) if len(front) else np.zeros(len(objectives))
    return np.array(
        [
            below[place] if value is None else sign * value
            for place, (sign, value) in enumerate(zip(signs, known, strict=True))
        ]
    )


def volume_of(history: History, given: Sequence[float] | None = None) -> float:
    """Return the hypervolume of the front; 0 before there is one."""
    front = np.array([history.larger_better(trial) for trial in history.front])
    return hypervolume(front, reference_of(history, given)) if len(front) else 0.0


def volumes_after(history: History, trials: Sequence[TrialRecord]) -> list[float]:
    """Return the hypervolume after each of some trials, in their order; only what counts at the top enlarges it."""
    reference, top = reference_of(history), history.problem.ladder.top
    rows, total = np.zeros((0, history.problem.num_objectives)), 0.0
    found: list[float] = []
    for trial in trials:
        counts = trial.value is not None and trial.query.level == top and not trial.dropped
        if counts and history.keeps_constraints(trial):
            new = np.array(history.larger_better(trial))
            gain = hypervolume_gain(rows, new, reference)
            if gain > 0.0:
                rows, total = np.vstack([rows, new]), total + gain
        found.append(total)
    return found
