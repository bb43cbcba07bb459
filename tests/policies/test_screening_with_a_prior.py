"""The default method begins where good values are believed to be, and leaves a wrong belief."""

import numpy as np
import pytest

from bmbo import Categorical, Fidelity, Float, Likely, create_study, load_study, screening
from bmbo.policies.ladder_start import first_points, space_filling
from bmbo.problem import Problem, Space
from bmbo.testing import check_policy
from support.small_studies import quiet

FIDELITIES = [Fidelity(1, cost=1), Fidelity(10, cost=10)]


def space_with(x, y, kind):
    return {
        "x": Float(0, 1, prior=None if x is None else Likely(x, width=0.1)),
        "y": Float(0, 1, prior=None if y is None else Likely(y, width=0.1)),
        "kind": Categorical(["a", "b", "c"], prior=None if kind is None else Likely(kind)),
    }


def bowl(trial):
    params = trial.params
    return (params["x"] - 0.8) ** 2 + (params["y"] - 0.3) ** 2 + 0.2 * (params["kind"] != "b") + 0.1 / trial.fidelity


def study_with(*belief, **options):
    return create_study(space=space_with(*belief), fidelities=FIDELITIES, **options)


def test_the_first_trial_is_the_best_that_is_believed_in_and_half_of_the_start_fills_the_space():
    space = Space(space_with(0.7, 0.2, "b"))
    assert space.decode(first_points(space, 8, 0)[0].tolist()) == {"x": 0.7, "y": 0.2, "kind": "b"}
    np.testing.assert_array_equal(first_points(space, 8, 0)[1::2], space_filling(space, 8, 0)[1::2])
    plain = Space(space_with(None, None, None))
    np.testing.assert_array_equal(first_points(plain, 8, 0), space_filling(plain, 8, 0))


def test_a_good_belief_is_followed_and_a_wrong_one_is_left():
    good = quiet(study_with(0.75, 0.35, "b"), bowl, n_trials=14)
    assert good.best_value < 0.02
    wrong = quiet(study_with(0.1, 0.9, "c"), bowl, n_trials=30)
    assert wrong.best_value < 0.03
    assert wrong.best_params["kind"] == "b"


def test_a_study_keeps_its_belief_and_another_one_is_another_study(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    study = study_with(0.7, 0.2, "b", storage=url, study_name="study")
    assert load_study(study_name="study", storage=url).problem == study.problem
    sentence = r"its parameter 'x' is Float\(.*\), likely 0.7 \(width 0.1\), not Float\(.*\), likely 0.6"
    with pytest.raises(ValueError, match=sentence):
        study_with(0.6, 0.2, "b", storage=url, study_name="study", load_if_exists=True)


@pytest.mark.slow
def test_suggestions_with_a_belief_can_be_run_and_repeat():
    problem = Problem(Space(space_with(0.7, 0.2, "b")), study_with(None, None, None).problem.ladder)
    check_policy(screening(), problem, num=2, rounds=6)
