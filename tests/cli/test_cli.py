"""The command line, in this process."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import textwrap
from typing import cast

import pytest

import bmbo
from bmbo.cli import main
from support import command_line
from support.command_line import STUDY, record

# Fixtures that both files of tests share.
folder, said = command_line.folder, command_line.said


def refusal(said, *words):
    """The one sentence that is said of a mistake."""
    code, out, err = said(*words)
    assert (code, out) == (1, "")
    assert err.startswith("bmbo: ")
    assert err.count("\n") == 1, err
    return err.removeprefix("bmbo: ").rstrip()


def test_a_study_is_run_and_told_of(folder, said):
    code, out, _ = said("run", "study.toml")
    assert code == 0
    assert "study study in sqlite:///study.db: new, minimize" in out
    assert re.search(r"level +fidelity +cost\n +0 +1 +1\n +1 +ten \(10\) +5\n", out)
    assert "until 6 trials; batches of 2, 1 at a time" in out
    best = min(cast(float, trial.value) for trial in record().history.done)
    assert f" gave {best:.6g}, the best value at the top; the method has no model" in out
    assert "bmbo status study.toml" in out
    assert len((folder / "calls.txt").read_text().splitlines()) == 6


def test_running_again_goes_on_and_says_so(folder, said):
    assert said("run", "study.toml", "--n-trials", "2")[0] == 0
    code, out, _ = said("run", "study.toml", "--total-cost", "1000")
    assert code == 0
    assert "goes on with 2 trials" in out
    assert re.search(r"the budget buys\n +0 +1 +1 +990\n +1 +ten \(10\) +5 +198\n", out)
    # Limits count over the whole study.
    assert len((folder / "calls.txt").read_text().splitlines()) == 6


def test_resume_needs_a_study_that_exists(folder, said):
    assert refusal(said, "resume", "study.toml").startswith("there is no storage sqlite:///study.db")
    assert not (folder / "study.db").exists()
    assert said("run", "study.toml", "--n-trials", "2")[0] == 0
    assert said("resume", "study.toml", "--n-trials", "3")[0] == 0
    where = ("--storage", "sqlite:///study.db", "--study", "study")
    assert refusal(said, "resume", *where) == "give --objective module:function, or a study file that has one"
    words = (*where, "--objective", "objective_of_test:train", "--method", "random_search")
    assert said("resume", *words, "--n-trials", "5")[0] == 0
    # Without limits, those of the last run, which are reached.
    assert said("resume", *words)[0] == 0
    assert len(record().history.done) == 5
    assert refusal(said, "resume", *where[:3], "stuby", "--objective", "objective_of_test:train") == (
        "there is no study 'stuby' in sqlite:///study.db"
    )


@pytest.mark.usefixtures("folder")
def test_scripts_read_json(said):
    code, out, _ = said("run", "study.toml", "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["trials"] == {"complete": 6, "failed": 0, "pending": 0}
    assert (summary["spent"], summary["interrupted"], summary["recommendation"]) == (30.0, False, None)
    history = record().history
    assert history.best is not None
    assert summary["best"]["value"] == history.best.value
    assert summary["answer"].startswith("use x=")

    found = json.loads(said("best", "study.toml", "--json")[1])
    assert found["params"] == history.problem.space.decode(history.best.query.unit) == summary["best"]["params"]
    assert (found["level"], found["fidelity"], found["state"]) == (1, 10, "complete")

    listed = json.loads(said("trials", "study.toml", "--json")[1])
    assert [trial["value"] for trial in listed] == [trial.value for trial in history.trials]

    state = json.loads(said("status", "study.toml", "--json")[1])
    assert state["trials"] == {"complete": 6, "dropped": 0, "failed": 0, "running": 0, "waiting": 0}
    assert [level["complete"] for level in state["levels"]] == [0, 6]
    assert (state["spent"], state["planner"], state["running"]) == (30.0, None, [])


@pytest.mark.usefixtures("folder")
def test_people_read_tables(said):
    assert said("run", "study.toml")[0] == 0
    where = ("--storage", "sqlite:///study.db", "--study", "study")
    out = said("status", *where)[1]
    assert re.search(r"level +fidelity +cost +complete +failed +running +waiting", out)
    assert "cost spent: 30\n" in out
    assert "planner: nobody" in out
    assert "value" in said("best", *where)[1]
    out = said("trials", *where)[1]
    assert len(out.splitlines()) == 7
    assert out.split()[:8] == ["trial", "state", "level", "fidelity", "value", "cost", "x", "kind"]
    assert len(said("trials", *where, "--level", "0")[1].splitlines()) == 1
    assert len(said("trials", *where, "--state", "failed")[1].splitlines()) == 1


def test_trials_are_exported(folder, said):
    assert said("run", "study.toml")[0] == 0
    rows = list(csv.DictReader(io.StringIO(said("export", "study.toml")[1])))
    done = record().history.done
    assert [float(row["value"]) for row in rows] == [trial.value for trial in done]
    assert [float(row["params_x"]) for row in rows] == [trial.query.unit[0] for trial in done]
    assert said("export", "study.toml", "--output", "trials.json")[1] == ""
    assert json.loads((folder / "trials.json").read_text()) == json.loads(said("trials", "study.toml", "--json")[1])
    assert said("export", "study.toml", "--output", "trials.txt", "--format", "csv")[0] == 0
    assert (folder / "trials.txt").read_text().startswith("number,state,level,fidelity,value")


def test_an_exported_table_can_be_added_to_another_study(folder, said):
    assert said("run", "study.toml")[0] == 0
    (folder / "other.toml").write_text(STUDY.replace("study.db", "other.db"))
    problem = record().history.problem
    place = "sqlite:///other.db"
    bmbo.create_study(study_name="study", storage=place, space=problem.space, fidelities=problem.ladder.fidelities)
    # The second table has the same results.
    sentences = ("6 results added from {}\n", "0 results added from {}; 6 were there already\n")
    for name, sentence in zip(("trials.csv", "trials.json"), sentences, strict=True):
        assert said("export", "study.toml", "--output", name)[0] == 0
        assert said("add", "other.toml", "--table", name)[1] == sentence.format(name)
    done = [(trial.query.unit, trial.query.level, trial.value) for trial in record().history.done]
    added = [(t.query.unit, t.query.level, t.value) for t in record(storage=place).history.done]
    assert added == done


PRINTS = """
import os, subprocess
print("imported")

def train(trial):
    print("python")
    os.write(1, b"descriptor\\n")
    subprocess.run(["echo", "child"], check=True)
    return trial.params["x"]
"""


@pytest.mark.parametrize("executor", ["inline", "process"])
def test_with_json_nothing_but_json_is_printed_whatever_the_objective_prints(folder, capfd, executor):
    (folder / "objective_of_test.py").write_text(PRINTS)
    assert main(["run", "study.toml", "--json", "--executor", executor, "--n-trials", "2"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["trials"]["complete"] == 2
    assert {"imported", "python", "descriptor", "child"} <= set(err.splitlines())
    print("back again")
    assert capfd.readouterr().out == "back again\n"


@pytest.mark.usefixtures("folder")
def test_failures_are_failed_trials_unless_the_user_says_otherwise(said):
    code, out, err = said("run", "study.toml", "--objective", "x:y")
    assert code == 1
    where = ("study.toml", "--n-trials", "2")
    text = STUDY.replace("objective_of_test:train", "objective_of_test:fails")
    with open("study.toml", "w") as file:
        file.write(text)
    code, out, err = said("run", *where)
    assert code == 0
    assert "finished: 0 trials done, 2 failed" in out
    last = r'bmbo: trial 1: level "ten" failed after \d+\.\d s: RuntimeError: no memory left \(2 of 2 trials, cost 10\)'
    assert re.search(last, err)
    assert "no trial has given a value, so there is no answer; trial 1: RuntimeError: no memory left" in out
    code, out, err = said("run", "study.toml", "--n-trials", "4", "--no-catch")
    assert code == 1
    assert err.splitlines()[-1] == "bmbo: odd"
    assert "no finished trial at the top fidelity (ten) yet" in refusal(said, "best", "study.toml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:train", "module 'nowhere' was not found in the working directory or among installed packages"),
        ("objective_of_test:trian", "module 'objective_of_test' has no 'trian'; did you mean 'train'?"),
        ("objective_of_test:number", "objective_of_test:number is not a function, but 3"),
        ("needs:train", "module 'needs' could not be imported: No module named 'no_such_package'"),
        ("broken:train", "module 'broken' could not be imported: ZeroDivisionError: division by zero (*:2)"),
        ("wrong:train", "module 'wrong' could not be imported: SyntaxError: "),
    ],
)
def test_an_objective_that_cannot_be_found_is_explained(folder, said, name, message):
    (folder / "needs.py").write_text("import no_such_package")
    (folder / "broken.py").write_text("\n1 / 0")
    (folder / "wrong.py").write_text("def train(:")
    (folder / "study.toml").write_text(STUDY.replace("objective_of_test:train", name))
    found = re.sub(r"\(/.*broken\.py", "(*", refusal(said, "run", "study.toml"))
    assert found.startswith(message)
    assert not (folder / "study.db").exists()


def test_a_study_file_without_a_storage_is_kept_in_sqlite_where_it_is_run(folder, monkeypatch):
    monkeypatch.delenv("BMBO_STORAGE", raising=False)
    (folder / "study.toml").write_text(
        STUDY.replace('storage = "sqlite:///study.db"\n', "").replace('name = "study"', 'name = "mine"')
    )
    assert main(["run", "study.toml"]) == 0
    assert len(record("mine", "sqlite:///mine.db").entries) == 6
    assert main(["status", "study.toml"]) == 0


def test_mistakes_on_the_command_line_are_one_sentence(folder, said):
    assert refusal(said, "run", "nowhere.toml") == "there is no study file nowhere.toml"
    assert refusal(said, "rum", "study.toml").startswith("argument COMMAND: invalid choice: 'rum'")
    assert refusal(said).startswith("the following arguments are required: COMMAND")
    sentence = "argument --n-trials: the value must be a whole number of at least 1, got 0"
    assert sentence in refusal(said, "run", "study.toml", "--n-trials", "0")
    sentence = "argument --timeout: the value must be positive, got -1.0"
    assert sentence in refusal(said, "run", "study.toml", "--timeout=-1")
    assert "invalid whole number value: 'x'" in refusal(said, "run", "study.toml", "--n-trials", "x")
    assert refusal(said, "status").startswith("give a study file, or --storage URL and --study NAME")
    assert refusal(said, "status", "--study", "study").startswith("give the study's storage: in its file, by --storage")
    (folder / "study.toml").write_text(STUDY.replace("n_trials = 6", ""))
    assert refusal(said, "run", "study.toml").startswith("give at least one of total_cost, n_trials and timeout")
    (folder / "study.toml").write_text(STUDY.replace("high = 1", "high = -1"))
    assert refusal(said, "run", "study.toml").startswith("study.toml, line 7: [space.x]: Float: low must be below high")
    assert not (folder / "study.db").exists()


def test_a_storage_may_stand_in_the_environment(folder, said, monkeypatch):
    (folder / "study.toml").write_text(STUDY.replace('storage = "sqlite:///study.db"', ""))
    monkeypatch.setenv("BMBO_STORAGE", "sqlite:///one.db")
    assert said("run", "study.toml", "--n-trials", "1")[0] == 0
    assert said("run", "study.toml", "--n-trials", "2", "--storage", "journal.log")[0] == 0
    assert len(record(storage="sqlite:///one.db").entries) == 1
    assert len(record(storage="journal.log").entries) == 2
    assert json.loads(said("status", "--study", "study", "--json")[1])["storage"] == "sqlite:///one.db"


def test_a_study_file_that_differs_from_the_stored_study_is_refused(folder, said):
    assert said("run", "study.toml", "--n-trials", "2")[0] == 0
    (folder / "study.toml").write_text(STUDY.replace("high = 1", "high = 2"))
    for word in ("run", "resume"):
        assert "is another one" in refusal(said, word, "study.toml")
    assert len(record().history.trials) == 2


@pytest.mark.usefixtures("folder")
def test_reading_a_storage_that_is_not_there_makes_none(said):
    for word in ("status", "best", "trials", "export"):
        for storage in ("sqlite:///other.db", "other.log"):
            found = refusal(said, word, "--storage", storage, "--study", "study")
            assert found == f"there is no storage {storage}; is this the right folder?"
    assert not any(name.startswith("other") for name in os.listdir())


@pytest.mark.usefixtures("folder")
def test_an_error_can_be_seen_whole(said):
    code, _, err = said("status", "study.toml", "--traceback")
    assert code == 1
    assert err.startswith("Traceback")


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"bmbo {bmbo.__version__}\n"


PASSWORD = "se%40cret"


@pytest.mark.parametrize("extra", [(), ("--traceback",)])
def test_passwords_are_never_shown(folder, said, extra, monkeypatch):
    # A port on which nobody listens.
    url = f"postgresql+psycopg://me:{PASSWORD}@127.0.0.1:1/db"
    monkeypatch.setattr("bmbo.ledger.storages.SERVER_SECONDS", 0.0)
    (folder / "study.toml").write_text(STUDY.replace("sqlite:///study.db", url))
    where = ("--storage", url, "--study", "study")
    function = ("--objective", "objective_of_test:train")
    for words in (
        ["run", "study.toml"],
        ["status", *where],
        ["worker", *where, *function],
        ["resume", *where, *function],
    ):
        code, out, err = said(*words, *extra)
        assert code == 1
        assert "me:***@127.0.0.1" in err
        assert PASSWORD not in out + err
        assert "se@cret" not in out + err


@pytest.mark.usefixtures("folder")
def test_a_url_with_a_mistake_in_it_does_not_show_its_password_either(said):
    for url in ("postgres//me:secret@host/db", "nodriver://me:secret@host/db", "sqlite:///a?password=secret"):
        code, out, err = said("status", "--storage", url, "--study", "study")
        assert code == 1
        assert "secret" not in out + err


HUSH = "hush-hush"


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--storage", f"postgresql://me:a@{HUSH}@127.0.0.1:1/db", "--study", "study"],
        ["status", "--storage", f"postgresql://127.0.0.1:1/db?user=me&password={HUSH}", "--study", "study"],
        ["status", "--storage", f"postgresql://me:{HUSH}/db", "--study", "study"],
        ["status", "--study", "study", "--storage", "postgresql://me:some", f"{HUSH}@host/db"],
        ["status", "--study", "study", f"--storag=postgresql://me:{HUSH}@host/db", "--no-such-option"],
        ["run", "study.toml", "--n-trials", f"postgresql://me:{HUSH}@host/db"],
        ["run", "study.toml", f"postgresql://me:a@{HUSH}@host/db"],
        ["run", f"postgresql://me:{HUSH}@host/db"],
    ],
)
@pytest.mark.usefixtures("folder")
def test_no_word_of_the_command_line_shows_a_password(said, words, monkeypatch):
    # As a new process, which has not seen the password in another test.
    monkeypatch.setattr("bmbo.ledger.passwords._remembered", set())
    monkeypatch.setattr("bmbo.ledger.storages.SERVER_SECONDS", 0.0)
    code, out, err = said(*words)
    assert code == 1
    assert err.startswith("bmbo: ")
    assert HUSH not in out + err


def test_a_line_of_a_study_file_is_shown_without_its_password(folder, said):
    for storage in (f'"postgresql://me:{HUSH}@host/db', f'{{ host = "host", password = "{HUSH}" }}'):
        (folder / "study.toml").write_text(STUDY.replace('"sqlite:///study.db"', storage))
        code, out, err = said("status", "study.toml")
        assert code == 1
        assert HUSH not in out + err


def test_what_an_objective_says_of_a_password_is_not_stored(folder, said):
    (folder / "objective_of_test.py").write_text(
        f"def train(trial):\n    raise RuntimeError('no answer from p://me:{HUSH}@host')\n"
    )
    _, out, err = said("run", "study.toml", "--n-trials", "2", "--json")
    shown = said("export", "study.toml", "--format", "json")[1]
    assert "no answer from p://me:***@host" in shown
    assert HUSH not in out + err + shown


SHOWS_ITSELF = """
import json, sys, psutil
from bmbo.cli.argument_passwords import words_without_passwords_in_sight

words = words_without_passwords_in_sight()
print(json.dumps([words, sys.argv[1:], psutil.Process().cmdline(), psutil.Process().pid]))
"""


def test_the_list_of_processes_shows_no_password():
    words = ["status", "--study", "a b", "--storage", f"postgresql://me:{HUSH}@host/db"]
    process = subprocess.Popen([sys.executable, "-c", SHOWS_ITSELF, *words], stdout=subprocess.PIPE, text=True)
    found, arguments, seen, pid = json.loads(process.communicate()[0])
    assert found == arguments == words
    assert seen[-4:] == ["--study", "a b", "--storage", "postgresql://me:***@host/db"]
    assert HUSH not in "".join(seen)
    # A shell or a batch system waits for the process that it has started.
    assert pid == process.pid


def test_a_program_is_an_objective(folder, said):
    (folder / "program.py").write_text(
        textwrap.dedent(
            """
            import sys
            if sys.argv[2] == "b":
                sys.exit("b is not for us")
            print("working")
            print(float(sys.argv[1]) + float(sys.argv[3]))
            """
        )
    )
    command = 'command = ["{python}", "program.py", "{x}", "{kind}", "{fidelity}"]'
    (folder / "study.toml").write_text(STUDY.replace('function = "objective_of_test:train"', command))
    assert said("run", "study.toml", "--n-trials", "12")[0] == 0
    trials = json.loads(said("trials", "study.toml", "--json")[1])
    assert {trial["params"]["kind"] for trial in trials} == {"a", "b", "c"}
    for trial in trials:
        if trial["params"]["kind"] == "b":
            assert trial["error"] == "CommandError: the command ended with exit code 1: b is not for us"
        else:
            assert trial["value"] == trial["params"]["x"] + 10


@pytest.mark.usefixtures("folder")
def test_a_worker_that_only_follows_ends_when_nobody_plans(said):
    assert said("run", "study.toml", "--n-trials", "1")[0] == 0
    study = bmbo.load_study(study_name="study", storage="sqlite:///study.db", method=bmbo.random_search())
    study.enqueue({"x": 0.5, "kind": "a"})
    where = ["--storage", "sqlite:///study.db", "--study", "study", "--objective", "objective_of_test:train"]
    words = ["worker", *where, "--n-trials", "8", "--no-plan", "--grace", "0.2", "--executor", "inline"]
    assert said(*words)[0] == 0
    # What waited was run; more was not planned.
    assert [trial.value is not None for trial in study.trials] == [True, True]
    assert len(study.trials) == 2
