"""Failures are not for ever: they end a hopeless run, can be run again, taken back, and their cost given back."""

import math

import pytest

import bmbo
from bmbo import TooManyFailuresError
from bmbo.history import Outcome
from support import quiet_runs
from support.quiet_runs import LastFirst, run, study_in
from support.small_policies import QUICK
from support.small_studies import bowl, quiet, study_of

# A fixture that several files of tests share.
storage = quiet_runs.storage


def broken(trial):
    raise RuntimeError(f"no GPU for trial {trial.number}")


def failed_study(storage=None, num=3, **options):
    return run(study_in(storage, **options), broken, n_trials=num, catch=Exception)


# Runs without a success.


@pytest.mark.parametrize("most", [1, 5])
def test_a_run_in_which_everything_fails_ends_early_and_says_why(most):
    study = study_of()
    with pytest.raises(TooManyFailuresError) as ended:
        quiet(study, broken, total_cost=1000, batch_size=3, catch=Exception, max_failures=most)
    sentence = (
        f"the first {most} trials of this run failed and none succeeded, so it was ended (max_failures={most}); trial "
        f"{most - 1}: RuntimeError: no GPU for trial {most - 1}; when the cause is corrected, study.retry() or bmbo "
        "retry queues failed trials again"
    )
    assert str(ended.value) == sentence
    assert isinstance(ended.value.__cause__, RuntimeError)
    assert len(study.history.failed) == most
    # A run that is started again may try as often again.
    with pytest.raises(TooManyFailuresError, match=f"the first {most} trials"):
        quiet(study, broken, total_cost=1000, catch=Exception, max_failures=most)
    assert len(study.history.failed) == 2 * most


def test_values_that_are_not_finite_end_a_run_as_well():
    study = study_of()
    with pytest.raises(TooManyFailuresError, match="trial 4: the objective returned nan"):
        quiet(study, lambda _: math.nan, n_trials=50)
    assert len(study.trials) == 5


@pytest.mark.parametrize("most", [None, 0])
def test_a_user_may_let_everything_fail(most):
    study = quiet(study_of(), broken, n_trials=9, catch=Exception, max_failures=most)
    assert len(study.history.failed) == 9


def test_after_one_success_failures_end_nothing():
    study = quiet(study_of(), lambda trial: math.nan if trial.number else 1.0, n_trials=9, max_failures=1)
    assert len(study.history.failed) == 8


def test_a_success_among_the_trials_that_still_run_lets_the_run_go_on():
    def objective(trial):
        return 1.0 if trial.number == 0 else math.nan

    # Trial 0 ends last of the first three: until then nothing is begun, afterwards everything.
    study = run(study_in(), objective, n_trials=7, batch_size=3, executor=LastFirst(3), max_failures=2)
    assert [trial.state for trial in study.trials] == ["complete"] + ["failed"] * 6


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("most", [-1, 1.5, True])
def test_a_number_of_failures_that_is_none_is_refused(most):
    with pytest.raises(ValueError, match="max_failures must be a whole number of at least 0, got"):
        quiet(study_of(), bowl, n_trials=1, max_failures=most)


# Retries.


def test_failed_trials_are_queued_again_as_they_were_and_run_first(storage):
    study = failed_study(storage)
    again = study.retry()
    assert [(t.number, t.state) for t in again] == [(3, "waiting"), (4, "waiting"), (5, "waiting")]
    assert [(t.params, t.level) for t in again] == [(t.params, t.level) for t in study.trials[:3]]
    assert study.retry() == [], "each is queued once"
    run(study_in(storage), n_trials=7)
    assert [t.state for t in study.trials] == ["failed"] * 3 + ["complete"] * 4
    # The values have replaced the failures, whose cost stays.
    assert [t.number for t in study.history.learned_from] == [3, 4, 5, 6]
    assert study.history.spent == 70.0
    assert study.retry() == []


def test_a_retry_that_fails_can_be_retried_once_more():
    study = failed_study(num=1)
    study.retry()
    run(study, broken, n_trials=2, catch=Exception)
    (last,) = study.retry()
    assert last.number == 2
    assert [entry.retry_of for entry in study._ledger.read().entries] == [None, 0, 1]


def test_the_cost_and_the_place_of_a_failure_are_given_back_if_asked_for(storage):
    study = failed_study(storage)
    assert study.history.spent == 30.0
    study.retry([0, 2], refund=True)
    assert study.history.spent == 10.0
    assert [(t.cost, t.refunded) for t in study.trials[:3]] == [(10.0, True), (10.0, False), (10.0, True)]
    # Three trials may be run in all: one has been, and two wait.
    run(study_in(storage), n_trials=3)
    assert [t.state for t in study.trials] == ["failed"] * 3 + ["complete"] * 2
    run(study_in(storage), total_cost=40)
    assert study.history.spent == 40.0
    assert len(study.history.done) == 3


def test_a_named_trial_is_retried_whether_it_failed_or_was_dropped():
    study = failed_study()
    assert [t.number for t in study.retry(study.trials[1])] == [3]
    study.drop(2)
    assert [t.number for t in study.retry([2, 1, 2])] == [4, 5]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("chosen", "kind", "sentence"),
    [
        (0, ValueError, "trial 0 is complete: only failed and dropped trials can be retried; enqueue its parameters"),
        ([1, 2], ValueError, "trial 2 is waiting: only failed and dropped trials can be retried"),
        (3, ValueError, "trial 3 is running: only failed and dropped trials can be retried"),
        ([1, 4], KeyError, "there is no trial 4; the study has 4"),
        (-1, KeyError, "there is no trial -1; the study has 4"),
        ("all", TypeError, "trials are named by their numbers or given as trials, got 'a'"),
        (1.0, TypeError, "trials are named by their numbers or given as trials, got 1.0"),
    ],
)
def test_what_cannot_be_retried_is_refused_in_one_sentence_and_nothing_is_queued(chosen, kind, sentence):
    study = study_of()
    one, two, three, _ = study.ask(4)
    study.tell(one, 1.0)
    study.tell(two, error="boom")
    study.tell(three, state="waiting")
    before = study.trials
    with pytest.raises(kind) as refusal:
        study.retry(chosen)
    assert sentence in str(refusal.value)
    assert study.trials == before


# Dropped trials.


def test_a_dropped_trial_is_forgotten_by_the_study_and_kept_in_the_record(storage):
    study = run(study_in(storage), n_trials=4)
    best = study.best_trial
    (dropped,) = study.drop(best)
    assert (dropped.state, dropped.value, dropped.refunded) == ("dropped", best.value, False)
    again = study_in(storage)
    assert again.best_trial.number != best.number
    assert again.trials[best.number] == dropped
    assert again.history.spent == 40.0
    assert best.number not in [trial.number for trial in again.history.learned_from]
    study.drop(best, refund=True)
    assert again.history.spent == 30.0
    other = bmbo.create_study(space=again.problem.space, fidelities=again.problem.ladder.fidelities)
    other.add_trials(again)
    assert len(other.trials) == 3


def test_a_trial_that_waits_is_dropped_from_the_queue():
    study = study_of()
    study.enqueue({"x": 0.5, "n": 3})
    kept = study.enqueue({"x": 0.25, "n": 3})
    (dropped,) = study.drop(0)
    assert (dropped.state, dropped.error, dropped.cost) == ("dropped", "it was dropped before it ran", 0.0)
    quiet(study, bowl, n_trials=1)
    assert [(t.number, t.state) for t in study.trials] == [(0, "dropped"), (kept.number, "complete")]


def test_a_trial_that_runs_is_not_dropped_and_neither_are_those_named_with_it():
    study = study_of()
    (one,) = study.ask(1)
    study.tell(one, 1.0)

    def objective(trial):
        sentence = "trial 1 is running and cannot be dropped: wait for its end, or end its worker first"
        with pytest.raises(ValueError, match=sentence):
            study.drop([one, trial])
        return 1.0

    quiet(study, objective, n_trials=2)
    assert [t.state for t in study.trials] == ["complete", "complete"]


@pytest.mark.parametrize(("refund", "spent"), [(False, 1.0), (True, 0.0)])
def test_a_trial_that_was_asked_for_and_never_told_is_given_up(refund, spent):
    study = study_of()
    (asked,) = study.ask(1)
    (dropped,) = study.drop(asked, refund=refund)
    assert (dropped.state, dropped.error) == ("dropped", "it was dropped before it was told")
    assert study.history.pending == ()
    assert study.history.spent == (spent if asked.level == 0 else 10 * spent)
    (again,) = study.retry(asked)
    assert again.params == asked.params


def test_a_trial_that_is_started_meanwhile_is_not_dropped(monkeypatch):
    study = study_of()
    study.enqueue({"x": 0.5, "n": 3})
    monkeypatch.setattr(type(study._ledger), "claim", lambda *_: False)
    with pytest.raises(RuntimeError, match="trial 0 was started meanwhile and is not dropped"):
        study.drop(0)


@pytest.mark.parametrize("method", [QUICK, bmbo.screening()], ids=["bayes", "screening"])
def test_a_method_forgets_a_dropped_start_and_makes_another(method):
    study = study_in(method=method)
    first = study.ask(2)
    for trial in first:
        study.tell(trial, error="wrong environment")
    levels = [trial.level for trial in first]
    study.drop(first, refund=True)
    assert [trial.level for trial in study.ask(2)] == levels
    assert study.history.spent == 0.0


def test_screening_may_ask_for_a_dropped_point_again():
    study = study_in(method=bmbo.screening())
    (first,) = study.ask()
    study.tell(first, error="wrong environment")
    study.drop(first)
    assert study.ask()[0].params == first.params


def test_a_recommendation_whose_run_was_dropped_is_confirmed_again():
    study = study_of(QUICK)
    quiet(study, bowl, n_trials=9)
    last = study.trials[-1]
    assert study.history.trials[-1].query.tag == {"confirms": True}
    study.drop(last, refund=True)
    quiet(study, bowl, n_trials=9)
    assert len(study.history.done) == 9
    assert study.history.trials[-1].query.tag == {"confirms": True}


def test_an_outcome_that_comes_after_its_trial_was_dropped_is_kept_as_one_more_trial():
    study = failed_study(num=1)
    entry = study._ledger.read().entries[0]
    study.drop(0)
    assert study._ledger.finish(entry, Outcome(0.5, 10.0), "late") == 1
    assert [(t.state, t.value) for t in study.trials] == [("dropped", None), ("complete", 0.5)]


def test_a_study_can_be_deleted(storage):
    failed_study(storage)
    bmbo.delete_study(study_name="study", storage=storage)
    with pytest.raises(ValueError, match="there is no study 'study'"):
        bmbo.delete_study(study_name="study", storage=storage)
    assert study_in(storage).trials == []
