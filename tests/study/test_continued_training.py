"""Where training continues, a level costs the difference, and money is counted by what was trained."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bmbo
from bmbo.history import History, Outcome, Query, TrialRecord
from bmbo.history.continued_share import ContinuedShare
from bmbo.history.prices import Prices
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.methods import random_search

SPACE = {"x": bmbo.Float(1e-3, 1.0, log=True), "y": bmbo.Float(0.0, 0.95)}
FIDELITIES = [bmbo.Fidelity(2, cost=2), bmbo.Fidelity(8, cost=8), bmbo.Fidelity(32, cost=32)]


def created(*, fidelities=FIDELITIES, continues=True, **more):
    """A study in which training continues, unless something else is said."""
    return bmbo.create_study(space=SPACE, fidelities=fidelities, continues=continues, **more)


def train(trial):
    """Saves how far it came, and is better the longer it trained."""
    (trial.checkpoint_dir / "epochs").write_text(str(trial.fidelity))
    return (trial.params["x"] - 0.1) ** 2 + (trial.params["y"] - 0.5) ** 2 + 1 / trial.fidelity


def forgetful(trial):
    """Saves nothing."""
    return (trial.params["x"] - 0.1) ** 2 + 1 / trial.fidelity


def run(study, objective=train, **limits):
    study.optimize(objective, **limits, show_progress_bar=False)
    return study


@given(
    st.lists(st.floats(0.1, 100.0), min_size=2, max_size=6),
    st.dictionaries(st.integers(0, 3), st.sets(st.integers(0, 5)), max_size=4),
)
def test_a_price_is_above_zero_and_at_most_that_of_its_level(steps, finished):
    costs = tuple(sum(steps[: level + 1]) for level in range(len(steps)))
    known = {(float(point),): {lv: 0 for lv in levels if lv < len(costs)} for point, levels in finished.items()}
    prices = Prices(costs, known)
    for point in range(5):
        for level in range(len(costs)):
            price = prices.of((float(point),), level)
            assert 0 < price <= costs[level]
            assert prices.least <= price
    assert prices.least_at_top <= costs[-1]


def test_steps_of_one_configuration_cost_as_much_as_the_whole(tmp_path):
    study = created(method=random_search(), checkpoints=tmp_path)
    for level in range(3):
        study.enqueue({"x": 0.1, "y": 0.5}, level)
    run(study, n_trials=3)
    assert [trial.cost for trial in study.trials] == [2.0, 6.0, 24.0]
    assert [trial.resume_from and trial.resume_from.name for trial in study.trials] == [
        None,
        "trial-00000",
        "trial-00001",
    ]
    assert study.history.spent == 32.0
    assert ContinuedShare.of(study.history) == ContinuedShare(2, 2, 10.0)


def test_a_trial_that_left_nothing_is_not_continued(tmp_path):
    study = created(method=random_search(), checkpoints=tmp_path)
    for level in range(3):
        study.enqueue({"x": 0.1, "y": 0.5}, level)
    run(study, forgetful, n_trials=3)
    assert [trial.cost for trial in study.trials] == [2.0, 8.0, 32.0]


def test_a_lost_checkpoint_is_paid_as_what_is_trained(tmp_path, caplog):
    study = created(method=random_search(), checkpoints=tmp_path)
    for level in (0, 1):
        study.enqueue({"x": 0.1, "y": 0.5}, level)
    run(study, n_trials=2)
    shutil.rmtree(tmp_path / "trial-00001")
    assert study.history.prices.of(study.history.trials[0].query.unit, 2) == 24.0
    study.enqueue({"x": 0.1, "y": 0.5})
    run(study, n_trials=3)
    last = study.trials[2]
    assert (last.cost, last.resume_from) == (30.0, (tmp_path / "trial-00000").absolute())
    assert "the checkpoint of trial 1 is gone" in caplog.text


def test_what_the_budget_no_longer_pays_for_is_not_begun(tmp_path):
    study = created(method=random_search(), checkpoints=tmp_path)
    study.enqueue({"x": 0.1, "y": 0.5}, 1)
    run(study, n_trials=1)
    shutil.rmtree(tmp_path / "trial-00000")
    study.enqueue({"x": 0.1, "y": 0.5})
    run(study, total_cost=33)
    assert study.trials[1].state == "waiting"
    assert study.history.spent <= 33


def test_ask_and_tell_count_what_was_continued(tmp_path):
    study = created(method=random_search(), checkpoints=tmp_path)
    for level in (0, 2):
        study.enqueue({"x": 0.1, "y": 0.5}, level)
        (trial,) = study.ask()
        study.tell(trial, train(trial))
    assert [trial.cost for trial in study.trials] == [2.0, 30.0]


def test_the_default_climbs_and_keeps_its_budget(tmp_path):
    storage = f"sqlite:///{tmp_path}/a.db"
    study = run(created(study_name="a", storage=storage, checkpoints=tmp_path), total_cost=100)
    above = [trial for trial in study.trials if trial.level > 0]
    assert study.history.spent <= 100
    assert study.history.best is not None
    assert sum(trial.resume_from is not None for trial in above) > len(above) / 2
    for trial in study.history.told:
        assert trial.outcome is not None
        assert 0 < trial.outcome.cost <= study.problem.ladder.costs[trial.query.level]
    again = bmbo.load_study(study_name="a", storage=storage, checkpoints=tmp_path)
    assert again.problem.continues
    assert again.history == study.history


def test_points_of_one_configuration_agree_to_the_last_digit(tmp_path):
    study = created(method=random_search(), checkpoints=tmp_path)
    # A point whose configuration, decoded and encoded once more, is another point.
    space = study.problem.space

    def moves(unit):
        first = space.encode(space.decode(unit))
        return space.encode(space.decode(first)) != first

    unit = next(unit for step in range(1, 20_000) if moves(unit := (step / 20_000, 0.5)))
    study.enqueue(space.decode(unit), 0)
    run(study, n_trials=1)
    (known,) = study.history.trials
    number = study._ledger.add(Query(known.query.unit, 2))
    assert study.history.trials[number].query.unit == known.query.unit


def test_without_the_flag_nothing_changes(tmp_path):
    plain = run(created(continues=False, checkpoints=tmp_path / "a"), forgetful, n_trials=14)
    saving = run(
        created(continues=False, checkpoints=tmp_path / "b"), lambda t: (t.checkpoint_dir, forgetful(t))[1], n_trials=14
    )
    assert [t.query for t in plain.history.trials] == [t.query for t in saving.history.trials]
    costs = plain.problem.ladder.costs
    assert [t.outcome and t.outcome.cost for t in saving.history.trials] == [
        costs[t.query.level] for t in plain.history.trials
    ]
    assert "continues" not in StudyDefinition(plain.problem, 0).to_json()


def test_measured_costs_are_those_from_the_start():
    ladder = bmbo.Ladder([bmbo.Fidelity(1, cost="measure"), bmbo.Fidelity(4, cost="measure")])
    history = History(bmbo.Problem(bmbo.Space(SPACE), ladder, continues=True))
    history = history.asked(Query((0.5, 0.5), 0)).with_outcome(0, Outcome(1.0, 3.0, 3.0, checkpoint=True))
    history = history.asked(Query((0.5, 0.5), 1))
    trials = (history.trials[0], TrialRecord(1, history.trials[1].query, Outcome(1.0, 9.0, 9.0), resumed_from=0))
    history = History(history.problem, trials)
    assert history.prices.costs == (3.0, 12.0)
    assert history.prices.of((0.5, 0.5), 1) == 9.0


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"continues": "yes"}, TypeError, "continues must be True or False, got 'yes'"),
        ({"fidelities": FIDELITIES[:1]}, ValueError, "continues=True needs a lower fidelity to go on from"),
        (
            {"fidelities": FIDELITIES[::-1]},
            ValueError,
            "needs costs that rise with the fidelity.*got 32: 32, 8: 8, 2: 2",
        ),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_bad_input_is_named(more, error, text):
    with pytest.raises(error, match=text):
        created(**more)


def test_checkpoints_that_are_needed_cannot_be_removed(tmp_path):
    with pytest.raises(
        ValueError, match="keep_checkpoints='none' removes what a study with continues=True goes on from"
    ):
        run(created(checkpoints=tmp_path), n_trials=1, keep_checkpoints="none")


def test_a_study_keeps_its_flag(tmp_path):
    storage = f"sqlite:///{tmp_path}/a.db"
    created(study_name="a", storage=storage)
    with pytest.raises(ValueError, match="it was made with continues=True, not continues=False"):
        created(study_name="a", storage=storage, continues=False, load_if_exists=True)
