"""Let callbacks that were written for Optuna work in a run of bmbo."""

from collections.abc import Callable
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from bmbo.ledger.storages import quiet_optuna
from bmbo.ledger.stored_trials import optuna_distributions
from bmbo.study import Study, Trial

__all__ = ["optuna_callback"]

FIDELITY = "fidelity"


def optuna_callback(
    callback: Callable[[optuna.Study, FrozenTrial], object],
) -> Callable[[Study, Trial], None]:
    """Return a callback for `Study.optimize` that calls a callback of Optuna with a study and a trial of Optuna.

    The trial has one parameter more, `fidelity`, and its level, cost and seconds as user attributes. It is complete if
    it has a value, also below the top. The study has the name and the directions of ours, and no trials.

    Args:
        callback: such as `MLflowCallback` of the package optuna-integration.

    Example:
        >>> study.optimize(objective, n_trials=20, callbacks=[optuna_callback(MLflowCallback())])
    """
    shown: dict[str, optuna.Study] = {}

    def called(study: Study, trial: Trial) -> None:
        if study.study_name not in shown:
            with quiet_optuna():
                shown[study.study_name] = optuna.create_study(study_name=study.study_name, directions=study.directions)
        callback(shown[study.study_name], frozen_trial(study, trial))

    return called


def frozen_trial(study: Study, trial: Trial) -> FrozenTrial:
    """Return a finished trial of bmbo as one of Optuna, with its fidelity as a parameter."""
    space, ladder = study.problem.space, study.problem.ladder
    values: tuple[Any, ...] = tuple(fidelity.value for fidelity in ladder.fidelities)
    known = optuna_distributions(space)
    name = FIDELITY if FIDELITY not in known else f"bmbo_{FIDELITY}"
    attributes = {"level": trial.level, "cost": trial.cost, "seconds": trial.seconds, "error": trial.error}
    made = optuna.trial.create_trial(
        state=TrialState.COMPLETE if trial.values else TrialState.FAIL,
        values=trial.values or None,
        params={**trial.params, name: trial.fidelity},
        distributions={**known, name: CategoricalDistribution(values)},
        user_attrs={key: value for key, value in attributes.items() if value is not None},
    )
    made.number = trial.number
    made.datetime_start, made.datetime_complete = trial.begun, trial.ended
    return made
