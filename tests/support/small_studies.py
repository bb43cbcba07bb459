"""Small studies that are quick to run, for the tests of what is done with a study."""

from dataclasses import dataclass

from bmbo import create_study, random_search
from bmbo.policies.random_search import random_queries
from support.small_policies import PROBLEM, SPACE

FIDELITIES = PROBLEM.ladder.fidelities


@dataclass(frozen=True)
class InTurn:
    """Random queries at each level in turn."""

    def suggest(self, seed, history, num, carry=None):
        first = len(history.trials)
        return random_queries(seed, history.problem, first, [(first + place) % 2 for place in range(num)]), carry


def study_of(method=None, **options):
    return create_study(space=SPACE, fidelities=FIDELITIES, method=method or random_search(), **options)


def bowl(trial):
    return (trial.params["x"] - 0.3) ** 2 + 0.1 * trial.params["n"] + 0.1 * trial.level


def quiet(study, objective, **limits):
    study.optimize(objective, show_progress_bar=False, **limits)
    return study
