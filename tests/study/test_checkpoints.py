"""Checkpoint folders: found by who continues, removed when of no use."""

import os
import re
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import bmbo
from bmbo import Fidelity, Float, create_study, load_study, random_search
from bmbo.history import History, Outcome, Query
from bmbo.ledger.attribute_keys import DEFINITION
from bmbo.problem import Ladder, Problem, Space
from bmbo.study.checkpoints import clean, folder_for, source_of

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
    storage = f"sqlite:///{tmp_path}/a.db"
    made = study_in("a.db", tmp_path, "net").checkpoints
    assert load_study(study_name="net", storage=storage).checkpoints == made
    assert made.parent == tmp_path
    assert re.fullmatch("net-[0-9a-f]{12}-checkpoints", made.name)
    elsewhere = load_study(study_name="net", storage=storage, checkpoints=tmp_path / "elsewhere")
    assert elsewhere.checkpoints == tmp_path / "elsewhere"
    assert not any(folder.is_dir() for folder in tmp_path.iterdir())


def study_in(file, folder, name):
    """A new study in a file."""
    storage = str(folder / file) if file.endswith(".log") else f"sqlite:///{folder / file}"
    return create_study(study_name=name, storage=storage, space=PROBLEM.space, fidelities=PROBLEM.ladder.fidelities)


def test_no_two_studies_share_a_folder(tmp_path):
    places = [("a.db", "lr 0.1"), ("a.db", "lr_0.1"), ("b.db", "lr 0.1"), ("c.log", "lr 0.1"), ("a.db", "../lr 0.1")]
    folders = [study_in(file, tmp_path, name).checkpoints for file, name in places]
    bmbo.delete_study(study_name="lr 0.1", storage=f"sqlite:///{tmp_path}/a.db")
    folders.append(study_in("a.db", tmp_path, "lr 0.1").checkpoints)
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        connection.execute("vacuum into ?", (str(tmp_path / "d.db"),))
    folders.append(load_study(study_name="lr 0.1", storage=f"sqlite:///{tmp_path}/d.db").checkpoints)
    levels = PROBLEM.ladder.fidelities
    in_memory = [create_study(study_name="lr 0.1", space=PROBLEM.space, fidelities=levels) for _ in range(2)]
    folders += [study.checkpoints for study in in_memory]
    assert len({folder.absolute() for folder in folders}) == len(folders)
    assert {folder.absolute().parent for folder in folders} <= {tmp_path, Path(tempfile.gettempdir())}


def test_folders_of_a_study_in_memory_are_temporary_and_end_with_the_process(tmp_path):
    script = """
import os, pathlib, bmbo
from optuna.storages import InMemoryStorage

storage = InMemoryStorage()
where = {"study_name": "study", "storage": storage}
study = bmbo.create_study(**where, space={"x": bmbo.Float(0, 1)}, fidelities=[bmbo.Fidelity(1, cost=1)])
folder = study.ask()[0].checkpoint_dir
(folder / "state").write_text("1")
assert bmbo.load_study(**where).checkpoints == study.checkpoints
child = os.fork()
if not child:
    raise SystemExit  # at its end, a child leaves the folders of its parent alone
os.waitpid(child, 0)
assert (folder / "state").exists()
print(folder.parent.stat().st_mode & 0o777, folder.parent)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    for name in ("temporary", "working"):
        (tmp_path / name).mkdir()
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path / "working", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    mode, root = done.stdout.split()
    assert int(mode) == 0o700
    assert Path(root).parent == tmp_path / "temporary"
    assert [list((tmp_path / name).iterdir()) for name in ("temporary", "working")] == [[], []]


def test_folders_are_for_the_user_alone(tmp_path):
    study = study_in("a.db", tmp_path, "net")
    folder = study.ask()[0].checkpoint_dir
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder.parent, folder)] == [0o700, 0o700]
    (tmp_path / "ours").mkdir(mode=0o750)
    study.checkpoints = tmp_path / "ours"
    assert study.ask()[0].checkpoint_dir.is_dir()
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o750


def test_a_study_of_an_earlier_version_keeps_its_folder_unless_another_may_have_used_it(tmp_path):
    study = study_in("a.db", tmp_path, "lr 0.1")
    ledger = study._ledger
    attributes = ledger.storage.get_study_user_attrs(ledger._study_id)
    before = {name: value for name, value in attributes[DEFINITION].items() if name != "key"}
    ledger.storage.set_study_user_attr(ledger._study_id, DEFINITION, before)

    def folder():
        return load_study(study_name="lr 0.1", storage=f"sqlite:///{tmp_path}/a.db").checkpoints

    assert folder().name != "lr_0.1-checkpoints"
    (tmp_path / "lr_0.1-checkpoints").mkdir()
    assert folder() == tmp_path / "lr_0.1-checkpoints"
    study_in("other.db", tmp_path, "lr 0.1")
    assert folder().name != "lr_0.1-checkpoints"
    (tmp_path / "other.db").unlink()
    assert folder().name == "lr_0.1-checkpoints"
    study_in("a.db", tmp_path, "lr_0.1")
    assert folder().name != "lr_0.1-checkpoints"


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
