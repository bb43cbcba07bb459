"""An older study of a similar problem gives a new one its first trials, and no values."""

import optuna
import pytest

from bmbo import Categorical, Fidelity, Float, Int, Likely, create_study
from bmbo.cli import main
from bmbo.study.older_studies import LEARNED_FROM

FIDELITIES = [Fidelity(1, cost=1), Fidelity(10, cost=10)]
SPACE = {"x": Float(0, 1), "n": Int(1, 9), "kind": Categorical(["a", "b", "c"])}


def old_study(**options):
    study = create_study(space=SPACE, fidelities=FIDELITIES, study_name="old", **options)
    for x, n, value in ((0.75, 4, 0.01), (0.7, 5, 0.06), (0.76, 4, 0.02), (0.1, 9, 1.9), (0.2, 8, 1.5), (0.3, 1, 0.9)):
        study.add_trial({"x": x, "n": n, "kind": "b"}, value)
    study.add_trial({"x": 0.8, "n": 4, "kind": "c"}, 0.001, level=0)  # of a lower level: after those of the top
    return study


def test_the_best_is_first_then_good_ones_that_differ_and_no_value_is_taken_over():
    study = create_study(space=SPACE, fidelities=FIDELITIES)
    queued = study.learn_from(old_study(), 2)
    assert [(trial.params["x"], trial.params["n"]) for trial in queued] == [(0.75, 4), (0.3, 1)]
    assert all((trial.state, trial.level, trial.value) == ("waiting", 0, None) for trial in queued)
    assert [trial.query.tag for trial in study.history.trials] == [{LEARNED_FROM: "old"}] * 2


def test_by_default_half_of_the_points_of_the_start_are_taken_and_the_start_does_the_rest():
    study = create_study(space=SPACE, fidelities=FIDELITIES)
    assert len(study.learn_from(old_study())) == 4
    asked = study.ask(9)
    assert [trial.level for trial in asked] == [0] * 8 + [1]
    assert len({str(trial.params) for trial in asked[:8]}) == 8


def test_what_the_study_holds_already_is_not_queued_again():
    study = create_study(space=SPACE, fidelities=FIDELITIES)
    first = study.learn_from(old_study(), 3)
    again = study.learn_from(old_study(), 10)
    assert not {str(trial.params) for trial in again} & {str(trial.params) for trial in first}
    assert len(study.trials) == 7
    assert study.learn_from(old_study()) == []


def test_parameters_are_matched_by_name_and_fitted_into_their_ranges():
    space = {
        "x": Float(0.0, 0.5),
        "n": Int(2, 6, step=2),
        "grid": Float(0, 1, step=0.25),
        "kind": Categorical(["c", "d"]),
        "new": Float(0, 1, prior=Likely(0.3, width=0.01)),
        "deep": Int(1, 3, when={"kind": "d"}),
    }
    study = create_study(space=space, fidelities=FIDELITIES)
    given = {"x": 0.9, "n": 5, "grid": 0.6, "kind": "b", "gone": 3}
    (trial,) = study.learn_from([given], 1)
    assert (trial.params["x"], trial.params["grid"]) == (0.5, 0.5)
    assert trial.params["n"] in (4, 6)
    assert trial.params["new"] == pytest.approx(0.3)
    assert ("deep" in trial.params) == (trial.params["kind"] == "d")


def test_an_optuna_study_will_do_too():
    older = optuna.create_study()
    older.enqueue_trial({"x": 0.9})
    older.enqueue_trial({"x": 0.6})
    older.optimize(lambda trial: abs(trial.suggest_float("x", 0, 2) - 0.5), n_trials=2)
    (trial,) = create_study(space=SPACE, fidelities=FIDELITIES).learn_from(older, 1)
    assert trial.params["x"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("source", "error", "sentence"),
    [
        ([{"y": 1}], ValueError, r"the other study has no parameter of this one: it has \['y'\], and this one has"),
        ("old", TypeError, "learn_from takes a bmbo study, an Optuna study, or a list of configurations"),
        ([], TypeError, "learn_from takes"),
        ({"x": 0.5}, TypeError, "learn_from takes"),
    ],
)
def test_what_nothing_can_be_learned_from_is_refused(source, error, sentence):
    study = create_study(space=SPACE, fidelities=FIDELITIES)
    with pytest.raises(error, match=sentence):
        study.learn_from(source)
    with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
        study.learn_from([{"x": 0.5}], 0)
    assert study.trials == []


def test_the_command_line_does_the_same(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/study.db"
    old_study(storage=url)
    create_study(space=SPACE, fidelities=FIDELITIES, study_name="new", storage=url)
    words = ["learn", "--storage", url, "--study", "new", "--from-study", "old", "--number", "2"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[0] == "trial 0 is queued: x=0.75, n=4, kind=b"
    assert main([*words[:-1], "9", "--json"]) == 0
    assert capsys.readouterr().out.split() == ["[", "2,", "3,", "4,", "5,", "6", "]"]
    assert main(words) == 0
    assert capsys.readouterr().out == "nothing was queued: everything is known already\n"
