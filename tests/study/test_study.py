"""Studies: what a user asks, tells and may rely on."""

import math
from typing import Any

import jax
import numpy as np
import optuna
import pandas as pd
import pytest

from bmbo import Categorical, Fidelity, create_study, load_study, random_search
from bmbo.ledger import open_storage
from bmbo.study.trial import as_number
from support.small_policies import QUICK, SPACE
from support.small_studies import FIDELITIES, InTurn, bowl, quiet, study_of


def test_asking_and_telling_fills_the_history():
    study = study_of()
    one, two = study.ask(2)
    assert (one.number, two.number) == (0, 1)
    assert set(one.params) == {"x", "n"}
    assert (one.fidelity, one.level, one.value) == (10, 1, None)
    finished = study.tell(two, 0.5)
    assert (finished.value, finished.cost, finished.error) == (0.5, 10.0, None)
    assert study.tell(0, error="out of memory").error == "out of memory"
    assert [trial.value for trial in study.trials] == [None, 0.5]
    assert study.history.spent == 20.0


def test_telling_of_an_unknown_trial_or_twice_is_an_error_that_changes_nothing():
    study = study_of()
    (trial,) = study.ask()
    with pytest.raises(KeyError, match="no trial 5"):
        study.tell(5, 1.0)
    with pytest.raises(KeyError, match="no trial -1"):
        study.tell(-1, 1.0)
    study.tell(trial, 1.0)
    with pytest.raises(ValueError, match="trial 0 has an outcome already"):
        study.tell(trial, 2.0)
    with pytest.raises(ValueError, match="either a value or an error"):
        study.tell(trial)
    assert [known.value for known in study.trials] == [1.0]


@pytest.mark.usefixtures("as_a_user")
def test_a_value_that_is_no_number_can_be_told_again_in_the_right_form():
    study = study_of()
    (trial,) = study.ask()
    with pytest.raises(TypeError, match="a real number"):
        study.tell(trial, "1.5")
    assert study.tell(trial, 1.5).value == 1.5


@pytest.mark.parametrize("value", [3, np.float32(0.5), np.int64(2), np.array(1.5), jax.numpy.asarray(2.5)])
def test_anything_that_is_one_real_number_counts_as_one(value):
    assert as_number(value) == float(value)
    assert type(as_number(value)) is float


@pytest.mark.parametrize(("direction", "best"), [("minimize", 1.0), ("maximize", 3.0)])
def test_the_direction_decides_what_is_best(direction, best):
    study = study_of(direction=direction)
    for trial, value in zip(study.ask(3), [2.0, 1.0, 3.0], strict=True):
        study.tell(trial, value)
    assert study.best_value == best
    assert study.best_params == study.best_trial.params


def test_only_the_top_fidelity_can_be_best():
    study = study_of()
    study.tell(study.enqueue({"x": 0.5, "n": 2}, level=0), -100.0)
    with pytest.raises(ValueError, match="top fidelity"):
        _ = study.best_trial
    study.tell(study.enqueue({"x": 0.25, "n": 3}), 5.0)
    assert study.best_value == 5.0
    assert study.best_params == {"x": 0.25, "n": 3}


def test_an_enqueued_trial_is_checked_and_runs_at_the_top_unless_told_otherwise():
    study = study_of()
    assert study.enqueue({"x": 0.5, "n": 2}).level == 1
    assert study.enqueue({"x": 0.5, "n": 2}, level=0).fidelity == 1
    with pytest.raises(ValueError, match="'n'"):
        study.enqueue({"x": 0.5, "n": 20})
    with pytest.raises(ValueError, match="level 2"):
        study.enqueue({"x": 0.5, "n": 2}, level=2)
    assert len(study.trials) == 2


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("options", [{"direction": "up"}, {"seed": -1}, {"seed": 1.5}, {"seed": True}], ids=str)
def test_wrong_settings_of_a_study_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        study_of(**options)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("number", [0, -1, True, 1.5])
def test_asking_for_no_whole_number_is_an_error(number):
    with pytest.raises(ValueError, match="at least 1"):
        study_of().ask(number)


def test_a_recommendation_needs_a_surrogate_and_a_value():
    with pytest.raises(TypeError, match="no surrogate"):
        study_of().recommendation()
    with pytest.raises(ValueError, match="no trial has finished"):
        study_of(QUICK).recommendation()


def test_a_plain_mapping_is_a_space_and_the_default_method_has_a_surrogate():
    study = create_study(space=dict(SPACE.params), fidelities=[Fidelity("full", cost=1)])
    assert study.problem.space == SPACE
    assert study.ask()[0].fidelity == "full"


@pytest.fixture(params=["memory", "sqlite", "journal"])
def storage(request, tmp_path):
    places = {"sqlite": f"sqlite:///{tmp_path}/study.db", "journal": str(tmp_path / "study.log")}
    return places.get(request.param) or optuna.storages.InMemoryStorage()


def stored(storage, **options):
    return study_of(study_name="net", storage=storage, load_if_exists=True, **options)


def test_a_study_can_be_asked_in_one_place_and_told_in_another(storage):
    asked = stored(storage).ask(3)
    elsewhere = load_study(study_name="net", storage=storage, method=random_search())
    elsewhere.tell(asked[1].number, 0.5, seconds=2)
    elsewhere.tell(asked[0], error="out of memory", cost=3)
    here = stored(storage)
    assert [trial.state for trial in here.trials] == ["failed", "complete", "running"]
    assert [(trial.cost, trial.seconds) for trial in here.trials[:2]] == [(3.0, 0.0), (10.0, 2.0)]
    assert here.best_trial.number == 1
    assert here.study_name == "net"
    assert here.direction == "minimize"


def test_optuna_loads_the_study_and_shows_the_best_at_the_top(storage):
    study = quiet(stored(storage, method=InTurn()), lambda trial: bowl(trial) - 10 * (trial.level == 0), n_trials=6)
    seen = optuna.load_study(study_name="net", storage=open_storage(storage))
    assert seen.best_trial.number == study.best_trial.number
    assert seen.best_trial.user_attrs["bmbo:level"] == 1
    assert seen.best_params == study.best_params
    assert seen.best_value == study.best_value
    assert [trial.state.name for trial in seen.trials] == ["PRUNED", "COMPLETE"] * 3


@pytest.mark.parametrize("num", [1, 3])
@pytest.mark.parametrize("name", ["study.db", "study.log"])
def test_of_two_who_ask_at_once_the_later_one_chooses_anew(name, num, tmp_path):
    storage = f"sqlite:///{tmp_path}/{name}" if name.endswith(".db") else str(tmp_path / name)
    first, second = stored(storage), stored(storage)
    chosen = second.policy

    class Overtaken:
        def suggest(self, seed, history, num, carry=None):
            answer = chosen.suggest(seed, history, num, carry)
            # Before the answer is written, for the first two times.
            if len(first.trials) < 2:
                first.ask()
            return answer

    second.policy = Overtaken()
    second.ask(num)
    assert len(first.trials) == 2 + num
    assert len({tuple(trial.params.items()) for trial in first.trials}) == 2 + num


def test_what_is_queued_is_taken_first_by_ask_and_by_runs():
    study = study_of()
    study.enqueue({"x": 0.5, "n": 2}, fidelity=1)
    study.enqueue({"x": 0.25, "n": 3})
    assert [trial.state for trial in study.trials] == ["waiting", "waiting"]
    first, new = study.ask(3)[::2]
    assert (first.number, first.params, first.level) == (0, {"x": 0.5, "n": 2}, 0)
    assert new.number == 2
    study.tell(first, state="waiting")
    quiet(study, bowl, n_trials=4)
    assert [trial.state for trial in study.trials] == ["complete", "running", "running", "complete"]


def test_a_trial_may_be_told_to_have_failed_as_optuna_does():
    study = study_of()
    for trial, state in zip(study.ask(3), ("fail", optuna.trial.TrialState.FAIL, "failed"), strict=True):
        assert study.tell(trial, state=state).error == "it was told to have failed"
    (trial,) = study.ask()
    assert study.tell(trial, 1.0, state=optuna.trial.TrialState.COMPLETE).value == 1.0


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("told", "kind", "sentence"),
    [
        ({}, ValueError, "tell needs either a value or an error"),
        ({"value": 1.0, "error": "no"}, ValueError, "tell needs either a value or an error, got value 1.0"),
        ({"value": "good"}, TypeError, "must return a real number, got 'good'"),
        ({"value": 1j}, TypeError, "must return a real number, got 1j"),
        ({"value": (1.0, 2.0)}, TypeError, "must return a real number"),
        ({"value": 1.0, "state": "fail"}, ValueError, "state 'fail' does not go with value 1.0"),
        ({"value": 1.0, "state": "waiting"}, ValueError, "state 'waiting' does not go with value 1.0"),
        ({"state": "complete"}, ValueError, "state 'complete' does not go with value None"),
        ({"value": 1.0, "state": "done"}, ValueError, "state must be 'complete', 'fail' or 'waiting', got 'done'"),
        ({"value": 1.0, "cost": -1}, ValueError, "cost must be a finite number of at least 0, got -1"),
        ({"value": 1.0, "cost": math.nan}, ValueError, "cost must be a finite number of at least 0, got nan"),
        ({"value": 1.0, "seconds": -1}, ValueError, "seconds must be a finite number of at least 0, got -1"),
        ({"value": 1.0, "trial": "0"}, TypeError, "tell needs a trial or its number, got '0'"),
    ],
)
def test_what_cannot_be_told_is_refused_in_one_sentence_and_changes_nothing(told, kind, sentence):
    study = study_of()
    study.ask()
    before = study.trials
    given: dict[str, Any] = {"trial": 0, **told}
    with pytest.raises(kind) as refusal:
        study.tell(**given)
    assert sentence in str(refusal.value)
    assert study.trials == before


def test_measured_costs_of_trials_that_a_user_ran_are_what_the_user_says_or_the_time_since_asking():
    fidelities = [Fidelity(1, cost="measure"), Fidelity(10, cost="measure")]
    study = create_study(space=SPACE, fidelities=fidelities, method=random_search())
    one, two, three = study.ask(3)
    assert study.tell(one, 1.0, seconds=4).cost == 4.0
    assert study.tell(two, 1.0, cost=6).seconds == 6.0
    since = study.tell(three, 1.0)
    assert since.cost == since.seconds
    assert since.seconds is not None
    assert since.seconds > 0


def test_old_results_are_used_at_once_and_cost_nothing(storage):
    study = stored(storage)
    added = study.add_trial({"x": 0.5, "n": 2}, 0.25)
    study.add_trial({"x": 0.5, "n": 2}, -1.0, fidelity=1, cost=1)
    study.add_trial({"x": 0.5, "n": 3}, -2.0, level=0)
    assert (added.state, added.level, added.cost) == ("complete", 1, 0.0)
    assert stored(storage).best_value == 0.25
    assert study.history.spent == 1.0
    assert len(quiet(study, bowl, n_trials=2).trials) == 5


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        ({"params": {"x": 0.5}}, "missing ['n']"),
        ({"params": {"x": 0.5, "n": 20}}, "parameter 'n'"),
        ({"value": math.nan}, "an old result must have a finite value, got nan"),
        ({"value": "1"}, "must return a real number, got '1'"),
        ({"level": 2}, "level 2 is not one of 0 to 1"),
        ({"level": True}, "level True is not one of 0 to 1"),
        ({"fidelity": 3}, "there is no fidelity 3; the study has [1, 10]"),
        ({"fidelity": 1, "level": 0}, "give a level or a fidelity, not both"),
        ({"cost": -1.0}, "cost must be a finite number of at least 0, got -1.0"),
        ({"cost": "1"}, "cost must be a finite number of at least 0, got '1'"),
    ],
)
def test_an_old_result_that_does_not_fit_is_refused_in_one_sentence(result, sentence):
    study = study_of()
    given: dict[str, Any] = {"params": {"x": 0.5, "n": 2}, "value": 1.0, **result}
    with pytest.raises((TypeError, ValueError)) as refusal:
        study.add_trial(**given)
    assert sentence in str(refusal.value)
    assert study.trials == []


def test_a_study_goes_into_a_table_and_from_there_into_another_study():
    study = quiet(study_of(InTurn()), bowl, n_trials=5)
    study.enqueue({"x": 0.5, "n": 2})
    table = study.trials_dataframe()
    assert list(table["number"]) == list(range(6))
    assert list(table["state"]) == ["complete"] * 5 + ["waiting"]
    assert list(table["params_n"]) == [trial.params["n"] for trial in study.trials]
    assert table["cost"].sum() == study.history.spent
    other = study_of()
    other.add_trials(table[table["state"] == "complete"].drop(columns=["cost"]))
    assert [(t.params, t.value, t.level) for t in other.trials] == [
        (t.params, t.value, t.level) for t in study.trials[:5]
    ]
    assert study_of().trials_dataframe().empty


def test_a_table_of_ones_own_has_a_column_a_parameter_and_the_value():
    study = study_of()
    table = pd.DataFrame({"x": [0.1, 0.2], "n": [1, 2], "value": [3.0, 4.0], "level": [0, 1], "cost": [1.5, None]})
    study.add_trials(table)
    assert [(t.params["n"], t.value, t.level, t.cost) for t in study.trials] == [(1, 3.0, 0, 1.5), (2, 4.0, 1, 0.0)]


def test_results_of_another_study_and_of_optuna_can_be_added():
    source = quiet(study_of(InTurn()), bowl, n_trials=4)
    study = study_of()
    study.add_trials(source)
    assert [(t.params, t.value, t.level) for t in study.trials] == [(t.params, t.value, t.level) for t in source.trials]
    theirs = optuna.create_study()
    theirs.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_int("n", 1, 9), n_trials=3)
    study.add_trials(theirs)
    assert [t.value for t in study.trials[4:]] == [t.value for t in theirs.trials]
    assert {t.level for t in study.trials[4:]} == {1}


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (pd.DataFrame({"x": [0.1, 0.2], "n": [1, 20], "value": [3.0, 4.0]}), "result 1: parameter 'n'"),
        (pd.DataFrame({"x": [0.1], "n": [1]}), "the table needs a column 'value', got ['x', 'n']"),
        (pd.DataFrame({"x": [0.1], "n": [1], "value": [math.nan]}), "result 0: an old result must have a finite value"),
        (pd.DataFrame({"x": [0.1], "n": [1], "y": [1], "value": [1.0]}), "unknown ['y']"),
        ([1, 2], "add_trials takes a pandas DataFrame or a study, got list"),
    ],
)
def test_of_results_that_do_not_all_fit_none_is_added(source, sentence):
    study = study_of()
    with pytest.raises((TypeError, ValueError)) as refusal:
        study.add_trials(source)
    assert sentence in str(refusal.value)
    assert study.trials == []


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"study_name": ""}, "study_name must be a name that is not empty, got ''"),
        ({"study_name": 3}, "study_name must be a name that is not empty, got 3"),
        ({"load_if_exists": True}, "load_if_exists=True needs a study_name"),
        ({"method": "random"}, "method must be a policy such as bmbo.screening(), got 'random'"),
        ({"space": [1]}, "the space must be"),
        ({"fidelities": []}, "at least one fidelity is needed"),
        ({"space": {"x": Categorical([True, 1])}}, "True and 1"),
    ],
)
def test_a_study_with_wrong_settings_is_refused_in_one_sentence(options, sentence):
    given: dict[str, Any] = {"space": SPACE, "fidelities": FIDELITIES, "method": random_search(), **options}
    with pytest.raises((TypeError, ValueError)) as refusal:
        create_study(**given)
    assert sentence in str(refusal.value)


def test_a_space_may_be_written_with_optunas_distributions():
    space = {"x": optuna.distributions.FloatDistribution(0, 1), "n": optuna.distributions.IntDistribution(1, 9)}
    assert create_study(space=space, fidelities=FIDELITIES, method=random_search()).problem.space == SPACE


def test_a_study_in_memory_has_a_name_and_nothing_on_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = quiet(study_of(), bowl, n_trials=2)
    assert study.study_name
    assert study.storage == "memory"
    assert list(tmp_path.iterdir()) == []
