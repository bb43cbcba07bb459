"""Studies: what a user asks, tells and may rely on."""

import math
import time
from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest

from bmbo import Fidelity, Query, Study, create_study, random_search
from bmbo.policies.random import random_queries
from bmbo.study import Limits, affordable, as_number
from test_policies import INFORMED, PROBLEM, SPACE, Fake, Noted

FIDELITIES = PROBLEM.ladder.fidelities
# All but the surrogate and the search is real: quick to compile.
QUICK = replace(INFORMED, surrogate=Fake([]), select=Noted([]), num_startup=2)


@dataclass(frozen=True)
class InTurn:
    """Random queries at each level in turn."""

    def suggest(self, key, history, num, carry=None):
        first = len(history.trials)
        return random_queries(key, history.problem, first, [(first + place) % 2 for place in range(num)]), carry


def study_of(method=None, **options):
    return create_study(space=SPACE, fidelities=FIDELITIES, method=method or random_search(), **options)


def bowl(trial):
    return (trial.params["x"] - 0.3) ** 2 + 0.1 * trial.params["n"] + 0.1 * trial.level


def quiet(study, objective, **limits):
    study.optimize(objective, show_progress_bar=False, **limits)
    return study


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
    with pytest.raises(ValueError, match="outcome already"):
        study.tell(trial, 2.0)
    with pytest.raises(ValueError, match="either a value or an error"):
        study.tell(trial)
    assert [known.value for known in study.trials] == [1.0]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("value", ["good", None, (1.0, 2.0), 1j, True, [1.0], {}, b"1", "1.5"])
def test_an_objective_that_returns_no_number_fails_its_trial_with_a_sentence(value):
    study = study_of()
    with pytest.raises(TypeError, match="an objective must return a real number, got"):
        quiet(study, lambda _: value, n_trials=3)
    (trial,) = study.trials
    assert trial.value is None
    assert "must return a real number" in (trial.error or "")


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


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_failures_and_the_run_goes_on(value):
    study = quiet(study_of(), lambda trial: value if trial.number == 0 else 1.0, n_trials=2)
    assert [trial.value for trial in study.trials] == [None, 1.0]
    assert repr(value) in (study.trials[0].error or "")


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


def test_a_run_needs_a_limit_and_limits_are_positive():
    with pytest.raises(ValueError, match="at least one of total_cost"):
        quiet(study_of(), bowl)
    for limits in ({"total_cost": 0.0}, {"n_trials": -1}, {"timeout": math.nan}):
        with pytest.raises(ValueError, match=next(iter(limits))):
            quiet(study_of(), bowl, **limits)


@pytest.mark.parametrize("total", [11.0, 35.5, 47.0])
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("method", [InTurn(), QUICK], ids=["in turn", "bayes"])
def test_the_budget_is_never_exceeded(total, batch_size, method):
    study = quiet(study_of(method), bowl, total_cost=total, batch_size=batch_size)
    assert 0 < study.history.spent <= total
    # A second run has a budget of its own.
    quiet(study, bowl, total_cost=total, batch_size=batch_size)
    assert study.history.spent <= 2 * total


def test_a_run_ends_after_the_number_of_trials():
    study = quiet(study_of(), bowl, n_trials=5, batch_size=2)
    assert len(study.trials) == 5
    assert len(quiet(study, bowl, n_trials=3, batch_size=2).trials) == 8


def test_a_run_ends_at_its_timeout():
    study = quiet(study_of(), lambda _: time.sleep(0.02) or 1.0, timeout=0.1)
    assert len(study.trials) >= 1
    assert Limits(None, None, 0.1).room(4, 0, seconds=0.2) == 0
    assert Limits(None, None, 0.1).room(4, 0, seconds=0.05) == 4


def test_of_a_batch_what_the_budget_pays_for_is_kept_in_order():
    queries = [Query((0.0, 0.5), 1), Query((0.1, 0.5), 0), Query((0.2, 0.5), 1), Query((0.3, 0.5), 0)]
    assert affordable(queries, (1.0, 10.0), 12.0) == [queries[0], queries[1], queries[3]]
    assert affordable(queries, (1.0, 10.0), 0.5) == []


def test_exceptions_that_are_caught_fail_their_trial_and_the_run_goes_on():
    def objective(trial):
        if trial.number == 1:
            raise RuntimeError("diverged")
        return 1.0

    study = quiet(study_of(), objective, n_trials=3, catch=(RuntimeError,))
    assert [trial.value for trial in study.trials] == [1.0, None, 1.0]
    assert study.trials[1].error == "RuntimeError: diverged"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_other_exceptions_end_the_run_with_their_trial_failed_and_the_rest_kept(error):
    def objective(trial):
        if trial.number == 2:
            raise error("enough")
        return float(trial.number)

    study = study_of()
    with pytest.raises(error):
        quiet(study, objective, n_trials=6, batch_size=2, catch=(RuntimeError,))
    assert [trial.value for trial in study.trials] == [0.0, 1.0, None]
    assert study.trials[2].error == f"{error.__name__}: enough"
    assert not study.history.pending
    assert len(quiet(study, bowl, n_trials=1).trials) == 4


def test_a_recommendation_needs_a_surrogate_and_a_value():
    with pytest.raises(TypeError, match="no surrogate"):
        study_of().recommendation()
    with pytest.raises(ValueError, match="no trial has finished"):
        study_of(QUICK).recommendation()


def test_the_last_trial_of_a_budget_is_the_recommendation():
    study = study_of(QUICK)
    before = []

    def objective(trial):
        before.append(study.history)
        return bowl(trial)

    quiet(study, objective, total_cost=60.0, batch_size=2)
    last = study.trials[-1]
    known = Study(study.problem, study.policy, 0)
    # As the study stood before its last trial was asked for.
    known._history = replace(before[-1], trials=before[-1].trials[:-1])
    assert last.level == 1
    assert dict(known.recommendation().params) == dict(last.params)
    assert study.history.spent <= 60.0


def test_minimising_and_maximising_the_negative_are_one_and_the_same():
    down = quiet(study_of(INFORMED, seed=3), bowl, n_trials=8, batch_size=2)
    up = quiet(study_of(INFORMED, seed=3, direction="maximize"), lambda trial: -bowl(trial), n_trials=8, batch_size=2)
    assert [trial.query for trial in down.history.trials] == [trial.query for trial in up.history.trials]
    assert down.best_value == -up.best_value
    lowest, highest = down.recommendation(), up.recommendation()
    assert lowest.params == highest.params
    assert (lowest.value, lowest.std) == (-highest.value, highest.std)


def test_the_same_seed_gives_the_same_trials_and_another_seed_others():
    first, again, other = (quiet(study_of(InTurn(), seed=seed), bowl, n_trials=4) for seed in (1, 1, 2))
    assert first.trials == again.trials
    assert first.trials != other.trials


def test_a_plain_mapping_is_a_space_and_the_default_method_has_a_surrogate():
    study = create_study(space=dict(SPACE.params), fidelities=[Fidelity("full", cost=1)])
    assert study.problem.space == SPACE
    assert study.ask()[0].fidelity == "full"
