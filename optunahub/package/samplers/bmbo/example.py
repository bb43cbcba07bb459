"""Minimise a function that a trial approaches step by step, with a budget in steps."""

from __future__ import annotations

import optuna
import optunahub

module = optunahub.load_module(package="samplers/bmbo")


def objective(trial: optuna.Trial) -> float:
    """Return what a training of 27 steps would reach; report what it reaches on its way."""
    x = trial.suggest_float("x", -5, 5)
    y = trial.suggest_float("y", -5, 5)
    value = (x - 1) ** 2 + (y + 2) ** 2
    for step in range(1, 28):
        trial.report(value + 3 / step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return value + 3 / 27


study = optuna.create_study(
    sampler=module.BMBOSampler(fidelities={1: 1.0, 9: 9.0, 27: 27.0}, total_cost=300),
    pruner=module.BMBOPruner(),
)
study.optimize(objective)
print(study.best_trial.params, study.best_value)
