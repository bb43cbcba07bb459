"""Checkpoint folders: found by who continues, removed when of no use."""

import pytest

from bmbo import Fidelity, Float, create_study, load_study, random_search
from bmbo.history import History, Outcome, Query
from bmbo.problem import Ladder, Problem, Space
from bmbo.study.checkpoints import clean, folder_for, root_in, source_of

PROBLEM = Problem(
    Space({"x": Float(0, 1)}), Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10), Fidelity(50, cost=50)])
)


def lived(root, *trials):
    """A history of (x, level, value), each with a checkpoint; None is in flight, NaN failed."""
    history = History(PROBLEM)
    for number, (x, level, value) in enumerate(trials):
        history = history.asked(Query((x,), level))
        if value is not None:
            history = history.with_outcome(number, Outcome.of(value, 1.0))
        folder_for(root, number).mkdir(parents=True)
    return history


def left(root):
    return [int(folder.name.removeprefix("trial-")) for folder in sorted(root.iterdir())]


def test_the_source_is_the_same_configuration_at_the_highest_lower_level(tmp_path):
    nan = float("nan")
    history = lived(tmp_path, (0.5, 0, 1.0), (0.5, 1, 2.0), (0.4, 1, 0.0), (0.5, 0, 1.5), (0.5, 1, nan), (0.5, 1, None))
    assert source_of(tmp_path, history, Query((0.5,), 2)) == history.trials[1]
    assert source_of(tmp_path, history, Query((0.5,), 1)) == history.trials[3]
    assert source_of(tmp_path, history, Query((0.5,), 0)) is None
    assert source_of(tmp_path, history, Query((0.3,), 2)) is None


def test_a_trial_that_left_no_checkpoint_is_no_source(tmp_path):
    history = lived(tmp_path, (0.5, 0, 1.0), (0.5, 1, 2.0))
    folder_for(tmp_path, 1).rmdir()
    assert source_of(tmp_path, history, Query((0.5,), 2)) == history.trials[0]


def test_useful_are_the_best_and_the_highest_below_the_top_of_each_configuration(tmp_path):
    history = lived(
        tmp_path,
        (0.1, 0, 1.0),
        (0.1, 1, 1.0),
        (0.2, 0, 1.0),
        (0.3, 2, 0.5),
        (0.4, 2, 0.9),
        (0.5, 0, float("nan")),
        (0.6, 0, None),
    )
    assert clean(tmp_path, history, "all") == []
    assert clean(tmp_path, history, "useful") == [0, 4, 5]
    assert left(tmp_path) == [1, 2, 3, 6]
    assert clean(tmp_path, history, "useful") == []


def test_what_is_in_flight_keeps_its_folder_and_what_it_goes_on_from(tmp_path):
    history = lived(tmp_path, (0.1, 0, 1.0), (0.1, 1, 1.0), (0.2, 1, 1.0), (0.1, 2, None))
    assert clean(tmp_path, history, "none") == [0, 2]
    assert left(tmp_path) == [1, 3]


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_policy_of_clean_up_is_named():
    study = create_study(space=PROBLEM.space, fidelities=PROBLEM.ladder.fidelities, method=random_search())
    with pytest.raises(ValueError, match=r"keep_checkpoints must be one of .*got 'some'"):
        study.optimize(lambda _: 1.0, n_trials=1, keep_checkpoints="some")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="keep must be one of"):
        study.clean_checkpoints("some")  # pyright: ignore[reportArgumentType]


def test_folders_are_beside_the_storage_and_named_after_the_study(tmp_path):
    assert root_in(tmp_path, "my study/2") == tmp_path / "my_study_2-checkpoints"
    storage = f"sqlite:///{tmp_path}/a.db"
    create_study(study_name="net", storage=storage, space=PROBLEM.space, fidelities=PROBLEM.ladder.fidelities)
    assert load_study(study_name="net", storage=storage).checkpoints == tmp_path / "net-checkpoints"
    elsewhere = load_study(study_name="net", storage=storage, checkpoints=tmp_path / "elsewhere")
    assert elsewhere.checkpoints == tmp_path / "elsewhere"
    assert not any(folder.is_dir() for folder in tmp_path.iterdir())


def train(trial):
    """Counts epochs, from the checkpoint on."""
    before = 0 if trial.resume_from is None else int((trial.resume_from / "epochs").read_text())
    (trial.checkpoint_dir / "epochs").write_text(str(trial.fidelity))
    return float(trial.fidelity - before)


@pytest.mark.parametrize(("keep", "kept"), [("all", [0, 1, 2, 3]), ("useful", [1, 2, 3]), ("none", [])])
def test_training_goes_on_from_the_checkpoint_below(tmp_path, keep, kept):
    study = create_study(
        space=PROBLEM.space, fidelities=PROBLEM.ladder.fidelities, method=random_search(), checkpoints=tmp_path
    )
    # Queued together, so that what is needed later is not removed before.
    for x, level in ((0.5, 0), (0.5, 1), (0.25, 1), (0.5, 2)):
        study.enqueue({"x": x}, level)
    study.optimize(train, n_trials=4, show_progress_bar=False, keep_checkpoints=keep)
    assert [trial.value for trial in study.trials] == [1.0, 9.0, 10.0, 40.0]
    assert left(tmp_path) == kept
    resumed = [entry.resume_from for entry in study._ledger.read().entries]
    assert resumed == [None, 0, None, 1]
