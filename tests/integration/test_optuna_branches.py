"""Scripts of Optuna with branches: which parameters belong to which branch is found out from finished trials."""

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from bmbo.integration.optuna import BMBOPruner, BMBOSampler
from bmbo.integration.optuna_branches import branches_of
from bmbo.integration.optuna_trials import Steps, common_space, history_of, known_space

KIND = CategoricalDistribution(["svm", "forest", "net"])
RATE = FloatDistribution(0.0, 1.0)
LAYERS = IntDistribution(1, 3)


def ended(**params):
    kinds: dict[str, BaseDistribution] = {"kind": KIND, "layers": LAYERS}
    distributions: dict[str, BaseDistribution] = {name: kinds.get(name, RATE) for name in params}
    return optuna.trial.create_trial(params=params, distributions=distributions, value=0.0)


TRIALS = [
    ended(kind="svm", c=0.5, x=0.1),
    ended(kind="forest", trees=0.5, x=0.2),
    ended(kind="net", layers=1, u0=0.3, x=0.3),
    ended(kind="net", layers=3, u0=0.3, u1=0.1, x=0.3),
    ended(kind="forest", trees=0.1, x=0.4),
]


def test_each_parameter_of_a_branch_is_found_with_its_parent():
    assert branches_of(TRIALS, common_space(TRIALS)) == {
        "c": ("kind", ("svm",)),
        "trees": ("kind", ("forest",)),
        "layers": ("kind", ("net",)),
        "u0": ("kind", ("net",)),
        "u1": ("layers", (3,)),
    } or branches_of(TRIALS, common_space(TRIALS))["u0"] == ("layers", (1, 3))


def test_what_no_parent_explains_is_left_out():
    trials = [*TRIALS, ended(kind="svm", x=0.3)]
    assert "c" not in branches_of(trials, common_space(trials))
    assert set(known_space(trials)) == {"kind", "x", "trees", "layers", "u0", "u1"}


def test_a_range_that_changes_is_left_out():
    other = optuna.trial.create_trial(
        params={"kind": "svm", "c": 2.0, "x": 0.1},
        distributions={"kind": KIND, "c": FloatDistribution(0.0, 5.0), "x": RATE},
        value=0.0,
    )
    assert "c" not in branches_of([*TRIALS, other], common_space(TRIALS))


def test_the_history_holds_every_trial_with_what_it_asked_for():
    space = known_space(TRIALS)
    history = history_of(TRIALS, space, Steps.of(None), maximise=False)
    assert len(history.trials) == len(TRIALS)
    configs = [history.problem.space.decode(trial.query.unit) for trial in history.trials]
    assert configs[0].keys() == {"kind", "c", "x"}
    assert configs[3].keys() == {"kind", "layers", "u0", "u1", "x"}


def test_trials_without_branches_have_the_space_that_they_have_in_common():
    trials = [ended(kind="svm", x=0.1), ended(kind="net", x=0.4)]
    assert known_space(trials) == common_space(trials)
    assert history_of(trials, known_space(trials), Steps.of(None), maximise=False).problem.space.tree is None


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("fidelities", [None, [1, 5]])
def test_a_script_with_branches_runs_and_finds_the_best_branch(fidelities):
    def objective(trial):
        kind = trial.suggest_categorical("kind", ["svm", "forest", "net"])
        value = {"svm": 0.5, "forest": 0.3, "net": 0.1}[kind] + (trial.suggest_float("x", 0, 1) - 0.4) ** 2
        for place in range(trial.suggest_int("layers", 1, 3) if kind == "net" else 0):
            value += (trial.suggest_float(f"u{place}", 0, 1) - 0.3) ** 2
        for step in (1, 5) if fidelities else ():
            trial.report(value + 0.1 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    sampler = BMBOSampler(fidelities=fidelities, seed=1, warn_independent_sampling=False)
    pruner = BMBOPruner() if fidelities else optuna.pruners.NopPruner()
    study = optuna.create_study(sampler=sampler, pruner=pruner)
    study.enqueue_trial({"kind": "net", "x": 0.2, "layers": 1, "u0": 0.9})
    study.optimize(objective, n_trials=26)
    assert study.trials[0].params == {"kind": "net", "x": 0.2, "layers": 1, "u0": 0.9}
    assert study.best_params["kind"] == "net"
    assert study.best_value < 0.15
    later = study.trials[14:]
    assert sum(trial.params["kind"] == "net" for trial in later) > len(later) / 2
