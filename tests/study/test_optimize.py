"""Runs of a study: within their limits, whatever the objective does, and with the recommendation last."""

import logging
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bmbo.study import run_loop
from support.small_policies import POLICIES, QUICK
from support.small_studies import InTurn, bowl, quiet, study_of


def test_an_objective_sees_a_running_trial_of_its_study():
    seen = []
    quiet(study_of(), lambda trial: seen.append(trial) or 1.0, n_trials=2)
    assert [(trial.number, trial.state, trial.value, trial.fidelity) for trial in seen] == [
        (0, "running", None, 10),
        (1, "running", None, 10),
    ]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("value", ["good", None, (1.0, 2.0), 1j, True, [1.0], {}, b"1", "1.5"])
def test_an_objective_that_returns_no_number_fails_its_trial_with_a_sentence(value):
    study = study_of()
    with pytest.raises(TypeError, match="an objective must return a real number, got"):
        quiet(study, lambda _: value, n_trials=3)
    (trial,) = study.trials
    assert trial.value is None
    assert "must return a real number" in (trial.error or "")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_failures_and_the_run_goes_on(value):
    study = quiet(study_of(), lambda trial: value if trial.number == 0 else 1.0, n_trials=2)
    assert [trial.value for trial in study.trials] == [None, 1.0]
    assert repr(value) in (study.trials[0].error or "")


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
    # The budget is the whole study's: running again finds it spent.
    before = study.trials
    assert quiet(study, bowl, total_cost=total, batch_size=batch_size).trials == before
    assert total < quiet(study, bowl, total_cost=2 * total, batch_size=batch_size).history.spent <= 2 * total


def test_a_run_ends_after_the_number_of_trials():
    study = quiet(study_of(), bowl, n_trials=5, batch_size=2)
    assert len(study.trials) == 5
    assert len(quiet(study, bowl, n_trials=3, batch_size=2).trials) == 5
    assert len(quiet(study, bowl, n_trials=8, batch_size=2).trials) == 8


def test_a_run_ends_at_its_timeout(monkeypatch):
    seconds = [0.0]
    # The clock of the run alone, so that the speed of the machine does not count.
    monkeypatch.setattr(run_loop, "time", SimpleNamespace(monotonic=lambda: seconds[0]))

    def objective(_):
        seconds[0] += 1.0
        return 1.0

    study = quiet(study_of(), objective, timeout=2.5)
    assert [trial.state for trial in study.trials] == ["complete"] * 3


def test_exceptions_that_are_caught_fail_their_trial_and_the_run_goes_on():
    def objective(trial):
        if trial.number == 1:
            raise RuntimeError("diverged")
        return 1.0

    study = quiet(study_of(), objective, n_trials=3, catch=(RuntimeError,))
    assert [trial.value for trial in study.trials] == [1.0, None, 1.0]
    assert study.trials[1].error == "RuntimeError: diverged"


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_other_exceptions_end_the_run_with_their_trial_failed_and_the_rest_kept(error):
    def objective(trial):
        if trial.number == 2:
            raise error("enough")
        return float(trial.number)

    study = study_of()
    with pytest.raises(error):
        quiet(study, objective, n_trials=6, batch_size=2, catch=(RuntimeError,))
    assert [trial.value for trial in study.trials] == [0.0, 1.0, None, None]
    assert study.trials[2].error == f"{error.__name__}: enough"
    assert [trial.state for trial in study.trials[2:]] == ["failed", "waiting"]
    assert len(quiet(study, bowl, n_trials=5).trials) == 5
    assert not study.history.pending


def test_a_run_that_sys_exit_ends_says_so_because_python_does_not(caplog):
    def objective(_):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        quiet(study_of(), objective, n_trials=6, catch=(Exception,))
    assert (
        "trial 0 called sys.exit, which ends the run; catch=(Exception, SystemExit) goes on after it" in caplog.messages
    )


@pytest.mark.parametrize("limit", [{"total_cost": 60.0}, {"n_trials": 9}], ids=str)
def test_the_last_trial_of_a_run_is_the_recommendation_and_the_run_says_so(limit, caplog):
    study = study_of(QUICK)
    before = []

    def objective(trial):
        before.append((study.history, trial.number))
        return bowl(trial)

    with caplog.at_level(logging.INFO, logger="bmbo"):
        quiet(study, objective, batch_size=2, **limit)
    last = study.trials[-1]
    history, number = before[-1]
    assert number == last.number
    # As the study stood before its last trial was asked for.
    known = replace(history, trials=history.trials[:-1])
    found, _ = QUICK.recommendation(0, known)
    assert (last.level, study.history.trials[-1].query.tag) == (1, {"confirms": True})
    assert dict(last.params) == study.problem.space.decode(found.unit)
    assert f"the recommendation is confirmed at the top fidelity, as trial {number}" in caplog.text
    assert f"trial {number} confirmed the recommendation and gave {last.value:g}" in caplog.text
    assert study.history.spent <= limit.get("total_cost", math.inf)
    assert len(study.trials) <= limit.get("n_trials", math.inf)


@pytest.mark.parametrize("name", ["quick", pytest.param("networks", marks=pytest.mark.slow)])
def test_minimising_and_maximising_the_negative_are_one_and_the_same(name):
    method = POLICIES[name]
    down = quiet(study_of(method, seed=3), bowl, n_trials=8, batch_size=2)
    up = quiet(study_of(method, seed=3, direction="maximize"), lambda trial: -bowl(trial), n_trials=8, batch_size=2)
    assert [trial.query for trial in down.history.trials] == [trial.query for trial in up.history.trials]
    assert down.best_value == -up.best_value
    lowest, highest = down.recommendation(), up.recommendation()
    assert lowest.params == highest.params
    assert (lowest.value, lowest.std) == (-highest.value, highest.std)


def test_the_same_seed_gives_the_same_trials_and_another_seed_others():
    first, again, other = (quiet(study_of(InTurn(), seed=seed), bowl, n_trials=4) for seed in (1, 1, 2))
    assert first.trials == again.trials
    assert first.trials != other.trials


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"n_workers": 1.5}, "n_workers must be a whole number of at least 1, got 1.5"),
        ({"grace": 0}, "grace must be positive, got 0"),
        ({"executor": "threads"}, "executor must be one of"),
        ({"total_cost": 5}, "total_cost 5 does not pay for one evaluation at the top, which costs 10"),
        ({"objective": "train"}, "the objective must be a function of a trial, got 'train'"),
        ({"catch": "all"}, "catch must be exceptions, got 'all'"),
        ({"callbacks": print}, "callbacks must be a list of functions"),
        ({"callbacks": ["print"]}, "callbacks must be a list of functions"),
    ],
)
def test_a_run_with_wrong_options_is_refused_in_one_sentence_and_changes_nothing(options, sentence):
    study = study_of()
    given: dict[str, Any] = {"objective": bowl, "n_trials": 3, "show_progress_bar": False, **options}
    with pytest.raises((TypeError, ValueError)) as refusal:
        study.optimize(**given)
    assert sentence in str(refusal.value)
    assert study.trials == []
    assert study.last_run is None


class Unwilling:
    """Looks like a number until it is asked for its value."""

    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("on another device"), SystemExit(3), ZeroDivisionError()])
def test_a_returned_object_that_cannot_be_read_makes_a_failed_trial(error):
    study = study_of()
    quiet(study, lambda trial: Unwilling(error) if trial.number == 1 else 1.0, n_trials=3, catch=(TypeError,))
    assert [trial.state for trial in study.trials] == ["complete", "failed", "complete"]
    assert type(error).__name__ in (study.trials[1].error or "")
