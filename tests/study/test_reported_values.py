"""What trials report on their way is kept and learned from, and stops those that are worse than others."""

import os
import signal
from typing import Any

import numpy as np
import pytest

import bmbo
from bmbo.history import History, Outcome, Query
from bmbo.history.host_observations import Observations
from bmbo.ledger import attribute_keys as keys
from bmbo.methods import random_search
from bmbo.study.reported_values import FEWEST_OTHERS

SPACE = {"x": bmbo.Float(0.0, 1.0)}
FIDELITIES = [bmbo.Fidelity(2, cost=2), bmbo.Fidelity(4, cost=4), bmbo.Fidelity(8, cost=8)]
STORAGES = (None, "sqlite:///study.db", "study.journal")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Checkpoints of studies in memory are kept in the working directory."""
    monkeypatch.chdir(tmp_path)


def created(**more):
    given: dict[str, Any] = {"space": SPACE, "fidelities": FIDELITIES, "method": random_search(), **more}
    return bmbo.create_study(**given)


def loss(x, epoch):
    return (x - 0.3) ** 2 + 1 / epoch


def curve(trial):
    """Reports every epoch, and stops where it is told to."""
    done = 0
    if trial.resume_from is not None:
        done = int((trial.resume_from / "epochs").read_text())
    value = float("nan")
    for epoch in range(done + 1, trial.fidelity + 1):
        value = loss(trial.params["x"], epoch)
        trial.report(value, epoch)
        if trial.should_stop():
            break
    else:
        epoch = trial.fidelity
    (trial.checkpoint_dir / "epochs").write_text(str(epoch))
    return value


def run(study, xs, objective=curve, fidelity=8, **more):
    for x in xs:
        study.enqueue({"x": x}, fidelity=fidelity)
    study.optimize(objective, n_trials=len(study.trials), show_progress_bar=False, **more)
    return study


def killed(trial):
    """Reports, and dies."""
    trial.report(0.5, 2)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("executor", "storage"),
    [
        *[("inline", storage) for storage in STORAGES],
        *[pytest.param("process", storage, marks=pytest.mark.slow) for storage in STORAGES],
    ],
)
def test_steps_that_are_fidelities_are_kept_and_learned_from(storage, executor):
    study = run(created(storage=storage, study_name="curve"), [0.5, 0.1], executor=executor)
    for trial in study.trials:
        x = trial.params["x"]
        assert trial.reported == {2: pytest.approx(loss(x, 2)), 4: pytest.approx(loss(x, 4))}
        assert (trial.fidelity, trial.cost, trial.stopped_from) == (8, 8.0, None)
    seen = Observations.of(study.history)
    assert seen.level.tolist() == [0, 1, 2, 0, 1, 2]
    assert seen.value[:3] == pytest.approx([-loss(0.5, epoch) for epoch in (2, 4, 8)])
    assert study.history.spent == 16.0


@pytest.mark.slow
def test_a_report_is_written_before_the_trial_ends(tmp_path):
    study = created(storage=f"sqlite:///{tmp_path / 'study.db'}", study_name="killed")
    run(study, [0.5], killed, executor="process", catch=Exception, max_failures=None)
    (trial,) = study.trials
    assert trial.state == "failed"
    assert trial.reported == {2: 0.5}
    assert Observations.of(study.history).level.tolist() == [0, 2]


@pytest.mark.parametrize("executor", ["inline", pytest.param("process", marks=pytest.mark.slow)])
def test_a_trial_that_is_worse_than_the_median_counts_where_it_stopped(executor, tmp_path):
    study = created(early_stopping=True, storage=f"sqlite:///{tmp_path / 'study.db'}", study_name="stops")
    run(study, [0.3, 0.31, 0.32, 0.33], executor=executor)
    assert [trial.stopped_from for trial in study.trials] == [None] * FEWEST_OTHERS
    last = run(study, [0.9], executor=executor).trials[-1]
    assert (last.fidelity, last.level, last.stopped_from, last.cost) == (2, 0, 8, 2.0)
    assert last.value == pytest.approx(loss(0.9, 2))
    assert (last.state, last.reported) == ("complete", {})
    assert study.history.spent == 34.0
    assert study.best_params == {"x": 0.3}
    again = bmbo.load_study(study_name="stops", storage=study.storage)
    assert again.history == study.history
    assert run(study, [0.305], executor=executor).trials[-1].stopped_from is None


def test_what_was_stopped_goes_on_from_where_it_stopped(tmp_path):
    study = created(early_stopping=True, continues=True, checkpoints=tmp_path)
    run(study, [0.3, 0.31, 0.32, 0.33, 0.9])
    assert study.trials[-1].fidelity == 2
    later = run(study, [0.9]).trials[-1]
    assert later.resume_from is not None
    assert later.resume_from.name == "trial-00004"
    # Worse than the median at 4 epochs too, where it counts then, for the price of the difference.
    assert (later.fidelity, later.cost, later.stopped_from) == (4, 2.0, 8)


def test_nothing_stops_unless_it_was_asked_for():
    study = run(created(), [0.3, 0.31, 0.32, 0.33, 0.9])
    assert [trial.stopped_from for trial in study.trials] == [None] * 5


def test_an_objective_that_goes_on_in_spite_of_it_is_not_stopped():
    def stubborn(trial):
        for epoch in range(1, trial.fidelity + 1):
            trial.report(loss(trial.params["x"], epoch), epoch)
            trial.should_prune()
        return loss(trial.params["x"], trial.fidelity)

    study = run(created(early_stopping=True), [0.3, 0.31, 0.32, 0.33, 0.9], stubborn)
    assert study.trials[-1].fidelity == 8
    assert study.trials[-1].reported == {2: pytest.approx(loss(0.9, 2)), 4: pytest.approx(loss(0.9, 4))}


def test_trials_that_a_user_runs_report_and_stop_too():
    study = run(created(early_stopping=True), [0.3, 0.31, 0.32, 0.33])
    study.enqueue({"x": 0.9}, fidelity=8)
    (trial,) = study.ask(1)
    trial.report(loss(0.9, 2), 2)
    assert study.history.trials[-1].reported == ((0, loss(0.9, 2)),)
    assert Observations.of(study.history).level.tolist()[-1] == 0
    assert trial.should_stop()
    told = study.tell(trial, loss(0.9, 2))
    assert (told.fidelity, told.cost, told.stopped_from) == (2, 2.0, 8)


def test_steps_between_fidelities_and_values_that_are_not_finite_are_not_kept():
    def odd(trial):
        for value, step in (
            (1.0, 3),
            (float("nan"), 2),
            (float("inf"), 4),
            (0.1, 8),
            (0.2, 9),
            (0.3, "late"),
            (1, 2.0),
        ):
            trial.report(value, step)
        return 0.0

    assert run(created(), [0.5], odd).trials[0].reported == {2: 1.0}


@pytest.mark.usefixtures("as_a_user")
def test_a_bad_report_is_refused_in_one_sentence():
    study = created()
    (trial,) = study.ask(1)
    with pytest.raises(TypeError, match="must return a real number, got 'low'"):
        trial.report("low", 2)
    with pytest.raises(TypeError, match="report needs a step such as a number of epochs, got None"):
        trial.report(0.5, None)
    with pytest.raises(RuntimeError, match="only a trial that runs can report, and trial 0 is complete"):
        study.tell(trial, 0.5).report(0.5, 2)
    with pytest.raises(ValueError, match="early_stopping=True needs a lower fidelity"):
        created(fidelities=FIDELITIES[:1], early_stopping=True)
    with pytest.raises(TypeError, match="early_stopping must be True or False, got 1"):
        created(early_stopping=1)


def test_a_study_that_reports_nothing_is_stored_as_ever(tmp_path):
    study = run(created(storage=f"sqlite:///{tmp_path / 'study.db'}", study_name="plain"), [0.5], lambda _: 0.1)
    record = study._ledger
    (stored,) = record.storage.get_all_trials(record._study_id)
    assert not {keys.REPORTED, keys.STOPPED_FROM} & set(stored.user_attrs)
    definition = record.storage.get_study_user_attrs(record._study_id)[keys.DEFINITION]
    assert "early_stopping" not in definition
    with pytest.raises(ValueError, match="it was made with early_stopping=False, not early_stopping=True"):
        created(storage=study.storage, study_name="plain", load_if_exists=True, early_stopping=True)


def test_a_value_counts_before_reports_of_the_same_configuration_and_a_dropped_trial_reports_nothing():
    problem = bmbo.Problem(bmbo.Space(SPACE), bmbo.Ladder(FIDELITIES))
    history = History(problem).asked(Query((0.5,), 2)).asked(Query((0.5,), 0)).asked(Query((0.25,), 2))
    history = history.with_outcome(1, Outcome.of(0.7, 2.0))
    told = np.array([[0, 0.6], [1, 0.5]])
    reported = tuple((int(level), float(value)) for level, value in told)
    trials = list(history.trials)
    for number in (0, 2):
        trials[number] = bmbo.history.trial_records.replace(trials[number], reported=reported)
    seen = History(problem, tuple(trials))
    assert seen.reports == {0: ((1, 0.5),), 2: reported}
    assert Observations.of(seen).value.tolist() == [-0.5, -0.7, -0.6, -0.5]
    trials[2] = bmbo.history.trial_records.replace(trials[2], dropped=True)
    assert set(History(problem, tuple(trials)).reports) == {0}
