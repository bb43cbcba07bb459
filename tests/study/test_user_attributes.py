"""What an objective notes on its trial is in the record, and a study, a trial and a space can be looked at."""

import pickle

import numpy as np
import pytest

import bmbo
from bmbo.cli.command_objective import CommandObjective
from support.small_studies import bowl, quiet, study_of


def noting(trial):
    trial.set_user_attr("accuracy", np.float64(0.5))
    trial.set_user_attr("curve", [1, 0.5])
    if trial.number == 1:
        raise ValueError("diverged")
    return bowl(trial)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_an_objective_notes_is_kept_also_when_it_fails(workers, tmp_path):
    study = study_of(storage=f"sqlite:///{tmp_path}/study.db", study_name="study")
    quiet(study, noting, n_trials=2, catch=(ValueError,), n_workers=workers)
    found = bmbo.load_study(study_name="study", storage=f"sqlite:///{tmp_path}/study.db").trials
    assert [trial.state for trial in found] == ["complete", "failed"]
    assert [trial.user_attrs for trial in found] == [{"accuracy": 0.5, "curve": [1, 0.5]}] * 2


def test_what_is_noted_before_tell_is_kept():
    study = study_of()
    (trial,) = study.ask()
    trial.set_user_attr("seconds in the queue", 3)
    assert study.tell(trial, 1.0).user_attrs == {"seconds in the queue": 3}


def test_notes_are_columns_of_the_table_and_no_parameters_of_old_results():
    pytest.importorskip("pandas")
    study = quiet(study_of(), noting, n_trials=1)
    table = study.trials_dataframe()
    assert table["user_attrs_accuracy"].tolist() == [0.5]
    other = study_of()
    other.add_trials(table)
    assert [trial.value for trial in other.trials] == [study.trials[0].value]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [("net", object(), "must be a number, a text"), ("bmbo:cost", 1, "belong to bmbo"), (3, 1, "named by a text")],
)
def test_what_cannot_be_stored_is_refused_at_once(key, value, sentence):
    (trial,) = study_of().ask()
    with pytest.raises((TypeError, ValueError), match=sentence):
        trial.set_user_attr(key, value)


def test_a_program_notes_what_stands_beside_its_value():
    study = study_of()
    (trial,) = study.ask()
    words = ["echo", '{{"value": 0.5, "accuracy": {x}, "n": {n}}}']
    assert CommandObjective(words)(trial) == 0.5
    assert trial.user_attrs == {"accuracy": trial.params["x"], "n": trial.params["n"]}


def test_names_of_optuna_are_answered_and_a_trial_can_still_be_copied():
    (trial,) = study_of().ask()
    with pytest.raises(AttributeError, match=r"trial.params"):
        _ = trial.suggest_float
    assert not hasattr(trial, "no_such_name")
    assert pickle.loads(pickle.dumps(trial)) == trial


@pytest.mark.parametrize("value", [1e-3, 3e-4, 0.01, 1 / 3e3])
def test_queued_values_are_run_and_kept_exactly_as_given(value, tmp_path):
    seen = []
    where = f"sqlite:///{tmp_path}/study.db"
    space = {"rate": bmbo.Float(1e-5, 0.1, log=True), "n": bmbo.Int(1, 9)}
    study = bmbo.create_study(space=space, fidelities=bmbo.Fidelity(10, cost=1), storage=where, study_name="study")
    study.enqueue({"rate": value, "n": np.int64(3)})
    quiet(study, lambda trial: seen.append(dict(trial.params)) or float("nan"), n_trials=1)
    study.retry(0)
    quiet(study, lambda trial: seen.append(dict(trial.params)) or 0.5, n_trials=2)
    assert seen == [{"rate": value, "n": 3}] * 2
    assert bmbo.load_study(study_name="study", storage=where).best_params == {"rate": value, "n": 3}


def test_a_study_a_trial_and_a_space_are_shown_in_notebooks_with_their_text_escaped():
    space = {"x": bmbo.Float(1e-3, 1, log=True), "kind": bmbo.Categorical(["<a>", "b"], ordered=True)}
    study = bmbo.create_study(space=space, fidelities=bmbo.Fidelity("full", cost=1), study_name="a<b")
    assert "nothing at the top fidelity yet" in study._repr_html_()
    quiet(study, lambda trial: trial.params["x"], n_trials=2)
    shown = study._repr_html_()
    assert "Study a&lt;b in memory: 2 trials" in shown
    assert f"best {study.best_value:.6g} (trial {study.best_trial.number})" in shown
    assert "<th>complete</th>" in shown
    assert repr(study) == "Study('a<b', storage='memory', direction='minimize')"
    assert "<td>x</td>" in study.best_trial._repr_html_()
    assert "0.001 to 1, by factors" in study.problem.space._repr_html_()
    assert "&lt;a&gt;" in study.problem.space._repr_html_()
