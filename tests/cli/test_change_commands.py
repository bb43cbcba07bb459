"""Commands that queue failures again, drop trials and delete studies."""

import io
import json

import pytest

from bmbo import load_study
from support import command_line
from support.command_line import STUDY, record

# Fixtures that several files of tests share.
folder, said = command_line.folder, command_line.said

FAILS = STUDY.replace("objective_of_test:train", "objective_of_test:fails")


@pytest.fixture
def failed(folder, said):
    """A study with three failed trials, whose objective has been corrected since."""
    (folder / "study.toml").write_text(FAILS)
    assert said("run", "study.toml", "--n-trials", "3")[0] == 0
    (folder / "study.toml").write_text(STUDY)
    return folder


def test_a_command_that_always_fails_ends_the_run_with_the_reason(folder, said):
    (folder / "study.toml").write_text(FAILS.replace("n_trials = 6", "n_trials = 60"))
    code, out, err = said("run", "study.toml")
    assert code == 1
    assert "finished" not in out
    assert "bmbo: the first 5 trials of this run failed and none succeeded" in err.splitlines()[-1]
    assert "trial 4: ValueError: odd" in err.splitlines()[-1]
    assert said("worker", "study.toml", "--executor", "inline", "--max-failures", "2")[0] == 1
    assert len(record().history.failed) == 7
    assert said("run", "study.toml", "--max-failures", "0", "--n-trials", "16")[0] == 0
    assert len(record().history.failed) == 16


@pytest.mark.usefixtures("folder")
def test_the_number_of_failures_may_stand_in_the_file(said):
    with open("study.toml", "w") as file:
        file.write(FAILS + "max_failures = 2\n")
    assert "the first 2 trials" in said("run", "study.toml")[2]


@pytest.mark.usefixtures("failed")
def test_failed_trials_are_queued_again_and_resume_runs_them(said):
    state = said("status", "study.toml")[1]
    assert "last failure: trial 2: ValueError: odd; bmbo retry queues failed trials again" in state
    code, out, _ = said("retry", "study.toml", "--refund")
    assert code == 0
    assert out.splitlines() == [f"trial {old} is queued again as trial {old + 3}" for old in range(3)] + [
        "bmbo resume runs what is queued"
    ]
    assert said("retry", "study.toml")[1] == "no trial has failed that could be queued again\n"
    assert "last failure" not in said("status", "study.toml")[1]
    assert record().history.spent == 0.0
    assert said("resume", "study.toml", "--n-trials", "3")[0] == 0
    assert len(record().history.done) == 3


@pytest.mark.usefixtures("failed")
def test_scripts_choose_trials_and_read_json(said):
    where = ("--storage", "sqlite:///study.db", "--study", "study", "--json")
    assert json.loads(said("retry", *where, "--trials", "2", "0")[1]) == [
        {"retry_of": 2, "number": 3},
        {"retry_of": 0, "number": 4},
    ]
    assert json.loads(said("drop", *where, "--trials", "3", "1", "--refund")[1]) == [3, 1]
    listed = json.loads(said("trials", *where)[1])
    assert [(t["state"], t["refunded"], t["retry_of"]) for t in listed] == [
        ("failed", False, None),
        ("dropped", True, None),
        ("failed", False, None),
        ("dropped", True, 2),
        ("waiting", False, 0),
    ]


@pytest.mark.usefixtures("failed")
def test_failures_are_dropped_and_shown_as_dropped(said):
    code, out, _ = said("drop", "study.toml", "--failed", "--refund")
    assert code == 0
    assert out == "dropped: trial 0, trial 1, trial 2\ncost spent: 0\n"
    state = said("status", "study.toml")[1]
    head = ["level", "fidelity", "cost", "complete", "dropped", "failed", "running", "waiting"]
    assert state.splitlines()[1].split() == head
    assert "last failure" not in state
    assert said("drop", "study.toml", "--failed")[1].startswith("dropped: no trial\n")


@pytest.mark.usefixtures("failed")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("drop",), "give the trials to drop: their numbers after --trials, or --failed for all that failed"),
        (("drop", "--failed", "--trials", "1"), "give the trials to drop: their numbers after --trials, or --failed"),
        (("drop", "--trials", "7"), "there is no trial 7; the study has 3"),
        (("retry", "--trials", "x"), "argument --trials: invalid int value: 'x'"),
        (("delete",), "deleting study study in sqlite:///study.db needs a confirmation: nobody can be asked here"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(said, words, sentence, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, out, err = said(words[0], "study.toml", *words[1:])
    assert (code, out) == (1, "")
    assert err.startswith(f"bmbo: {sentence}")
    assert [entry.state for entry in record().entries] == ["failed"] * 3


class Terminal(io.StringIO):
    """A terminal on which somebody has typed an answer."""

    def isatty(self):
        return True


@pytest.mark.usefixtures("failed")
def test_a_study_is_deleted_after_a_confirmation_and_its_checkpoints_stay(said, monkeypatch):
    checkpoints = load_study(study_name="study", storage="sqlite:///study.db").checkpoints
    checkpoints.mkdir()
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    code, out, _ = said("delete", "study.toml")
    assert code == 1
    assert "study study in sqlite:///study.db has 3 trials that cost 15. Delete it? [y/N]" in out
    assert out.endswith("nothing was deleted\n")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    code, out, _ = said("delete", "study.toml")
    assert code == 0
    assert out.endswith(f"study study in sqlite:///study.db was deleted\nits checkpoints stay in {checkpoints}\n")
    assert "there is no study 'study'" in said("status", "study.toml")[2]


@pytest.mark.usefixtures("failed")
def test_a_script_deletes_without_a_question(said):
    assert said("delete", "study.toml", "--yes")[0] == 0
    assert said("status", "study.toml")[0] == 1
