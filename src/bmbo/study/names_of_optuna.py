"""Answer names and arguments of Optuna that bmbo does not have with the ones that it has."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Never

_SUGGEST = (
    "the space is given to create_study, as space={'x': bmbo.Float(0, 1)}, and the values are in trial.params['x']; "
    "with bmbo.integration.optuna.BMBOSampler an Optuna study suggests them"
)


class NoSuchArgument:
    """Stand for the type of arguments that a function does not have: nothing is of this type."""


ARGUMENTS: Mapping[str, str] = {
    "n_jobs": "n_workers says how many trials run at the same time, in processes and not in threads",
    "gc_after_trial": "leave it out: with n_workers=2 or more, trials run in processes of their own",
    "budget": "total_cost says what all trials of the study may cost together",
    "sampler": "method says what chooses trials, such as bmbo.screening()",
    "pruner": "fidelities take the place of pruning; early_stopping=True stops trials that report bad values",
    "name": "the name is given as study_name",
}
"""What to give in place of arguments that a function does not have."""


class NotHere:
    """Stand for a name of Optuna that a class of bmbo does not have: whoever reads it is told what bmbo has."""

    def __init__(self, hint: str) -> None:
        self._hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Never:
        owned = "Trial" if owner is None else owner.__name__
        raise AttributeError(f"a bmbo {owned} has no {self._name!r}: {self._hint}")


class TrialNames:
    """Answer names of Optuna's trials."""

    suggest_float = NotHere(_SUGGEST)
    suggest_int = NotHere(_SUGGEST)
    suggest_categorical = NotHere(_SUGGEST)


class StudyNames:
    """Answer names of Optuna's studies."""

    enqueue_trial = NotHere("bmbo calls it study.enqueue({'x': 0.5}, fidelity=10)")
    get_trials = NotHere("study.trials has all trials; each has a state")
    set_user_attr = NotHere("notes are kept with trials, as trial.set_user_attr('accuracy', 0.9)")
    set_metric_names = NotHere("objectives have names if create_study(directions={'loss': 'minimize'}) gives them")


def refuse_arguments(function: str, mistaken: Mapping[str, NoSuchArgument], known: Iterable[str]) -> None:
    """Raise TypeError if a function was given arguments that it does not have; say which one is probably meant."""
    for name in mistaken:
        near = get_close_matches(name, list(known), n=1)
        hint = ARGUMENTS.get(name) or (f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}")
        raise TypeError(f"{function} has no argument {name!r}: {hint}")
