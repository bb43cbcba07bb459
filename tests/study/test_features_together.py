"""Features that were made apart work together in one study."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

import bmbo
from bmbo.study import Trial
from support.small_studies import quiet


def not_both_ends(config: Mapping[str, Any]) -> bool:
    return config["x"] + config["y"] <= 1.8


def objective(trial: Trial) -> tuple[float, dict[str, float]]:
    x, y = trial.params["x"], trial.params["y"]
    if x > 0.95:
        return math.nan, {"size": 0.0}
    extra = (trial.params["depth"] - 3) ** 2 if "depth" in trial.params else 5.0
    value = (x - 0.8) ** 2 + (y - 0.3) ** 2 + 0.01 * extra + 0.1 / trial.fidelity
    trial.report(value + 0.1, trial.fidelity)
    return value, {"size": x}


@pytest.mark.slow
def test_constraints_beliefs_conditions_and_a_range_of_fidelities_go_together():
    study = bmbo.create_study(
        space={
            "x": bmbo.Float(0, 1, prior=bmbo.Likely(0.7, 0.3)),
            "y": bmbo.Float(0, 1),
            "kind": bmbo.Categorical(["tree", "line"]),
            "depth": bmbo.Int(1, 6, when={"kind": ["tree"]}),
        },
        fidelities=bmbo.FidelityRange(1, 27, log=True, levels=8),
        constraints={"size": ("<=", 0.6)},
        feasible=not_both_ends,
    )
    quiet(study, objective, total_cost=160.0, batch_size=4)
    assert study.history.spent <= 160.0
    assert len({trial.level for trial in study.trials}) >= 3
    assert all(not_both_ends(trial.params) for trial in study.trials)
    assert all(("depth" in trial.params) == (trial.params["kind"] == "tree") for trial in study.trials)
    assert study.best_trial.measured["size"] <= 0.6
    assert study.best_trial.params["x"] <= 0.6
    assert study.best_value < 0.25
    assert "x" in study.recommendation().params
