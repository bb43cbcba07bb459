"""A program as an objective."""

import json
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial

import pytest

from bmbo.cli.command_objective import CommandError, CommandObjective
from bmbo.executors import LocalProcessExecutor
from bmbo.study.trial import Trial

TRIAL = Trial(number=7, params={"lr": 0.1 + 0.2, "layers": 3, "pool": "max, or so", "bias": True}, fidelity=10, level=1)
NAMES = tuple(TRIAL.params)


def number(returned: object) -> float:
    """Return what a program gave, which must be a single number."""
    assert isinstance(returned, float)
    return returned


def script(tmp_path, source):
    """A program of the given source, as the first words of a command."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(source))
    return ["{python}", str(path)]


@pytest.fixture
def echo(tmp_path):
    """A program that writes its arguments to a file of the folder and ends well."""
    return script(
        tmp_path,
        """
        import json, os, pathlib, sys
        here = pathlib.Path(__file__).parent
        (here / "seen.json").write_text(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}))
        print(1.5)
        """,
    )


def seen(tmp_path):
    return json.loads((tmp_path / "seen.json").read_text())


def test_arguments_reach_the_program_exactly_as_they_are(echo, tmp_path):
    words = ["--lr={lr}", "{layers}", "{pool}", "{bias}", "{fidelity}-{level}-{number}", "{{literal}} $HOME * ; ls", ""]
    assert CommandObjective([*echo, *words], names=NAMES)(TRIAL) == 1.5
    expected = ["--lr=0.30000000000000004", "3", "max, or so", "true", "10-1-7", "{literal} $HOME * ; ls", ""]
    assert seen(tmp_path)["argv"] == expected


def test_a_string_is_split_into_words_and_its_values_are_not(echo, tmp_path):
    command = CommandObjective(f"{{python}} '{echo[1]}' --pool {{pool}} 'two words' {{params_json}}", names=NAMES)
    assert command(TRIAL) == 1.5
    argv = seen(tmp_path)["argv"]
    assert argv[:3] == ["--pool", "max, or so", "two words"]
    assert json.loads(argv[3]) == dict(TRIAL.params)


def test_environment_and_folder_are_the_ones_asked_for(echo, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    env = {"LR": "{lr}", "REST": "{layers} {pool} {bias}"}
    assert CommandObjective(echo, workdir=folder, env=env, names=NAMES)(TRIAL) == 1.5
    got = seen(tmp_path)
    assert got["cwd"] == str(folder)
    assert (got["env"]["LR"], got["env"]["REST"]) == ("0.30000000000000004", "3 max, or so true")
    assert got["env"]["PATH"] == os.environ["PATH"]


def test_checkpoint_folders_are_handed_over(echo, tmp_path):
    trial = replace(TRIAL, resume_from=tmp_path / "earlier", _folder=tmp_path / "own")
    words = ["{checkpoint_dir}", "{resume_from}", "{params_json}"]
    CommandObjective([*echo, *words])(trial)
    assert seen(tmp_path)["argv"][:2] == [str(tmp_path / "own"), str(tmp_path / "earlier")]
    assert (tmp_path / "own").is_dir()
    CommandObjective([*echo, *words])(replace(trial, resume_from=None))
    assert seen(tmp_path)["argv"][1] == ""


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("print('epoch 1'); print(0.25)", 0.25),
        ("print(3)", 3.0),
        ('print(\'{"value": -1e-3, "note": "x"}\'); print(); print(\'  \')', -1e-3),
        ("import sys; print(2.0); print('noise', file=sys.stderr)", 2.0),
        # Much output costs no memory, and only its end is read.
        ("print('x' * 1000000); print(4)", 4.0),
    ],
)
def test_the_last_line_is_the_result(tmp_path, printed, value):
    assert CommandObjective([*script(tmp_path, printed), "{params_json}"])(TRIAL) == value


def test_a_program_may_report_that_its_result_is_no_number(tmp_path):
    assert math.isnan(number(CommandObjective([*script(tmp_path, "print('NaN')"), "{params_json}"])(TRIAL)))


@pytest.mark.parametrize("printed", ["loss: 0.3", "true", '"0.3"', "[1, 2]", '{"loss": 1}', '{"value": null}', "null"])
def test_what_is_no_number_is_refused_and_shown(tmp_path, printed):
    command = CommandObjective([*script(tmp_path, f"print({printed!r})"), "{params_json}"])
    with pytest.raises(CommandError, match="the last line it printed must be a JSON number") as error:
        command(TRIAL)
    assert repr(printed) in str(error.value)


def test_a_silent_program_has_no_result(tmp_path):
    with pytest.raises(CommandError, match="it is empty"):
        CommandObjective([*script(tmp_path, ""), "{params_json}"])(TRIAL)


def test_a_failure_has_its_exit_code_and_the_end_of_stderr(tmp_path):
    source = """
    import sys
    print("early chatter", file=sys.stderr)
    print("\\n".join(f"line {i}" for i in range(100)), file=sys.stderr)
    sys.exit(3)
    """
    with pytest.raises(CommandError, match=r"exit code 3: line 97 \| line 98 \| line 99$") as error:
        CommandObjective([*script(tmp_path, source), "{params_json}"])(TRIAL)
    assert "chatter" not in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_killed_program_is_said_to_be_killed(tmp_path):
    source = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(CommandError, match=r"killed by SIGKILL \(out of memory\?\) and wrote nothing"):
        CommandObjective([*script(tmp_path, source), "{params_json}"])(TRIAL)


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(CommandError, match="'no-such-program' was not found"):
        CommandObjective(["no-such-program", "{params_json}"])(TRIAL)
    with pytest.raises(CommandError, match="'/etc' could not be started: Permission denied"):
        CommandObjective(["/etc", "{params_json}"])(TRIAL)
    with pytest.raises(CommandError, match="workdir 'nowhere' is not a folder"):
        CommandObjective(["ls", "{params_json}"], workdir="nowhere")(TRIAL)


def test_a_result_may_come_by_file(tmp_path):
    source = """
    import pathlib, sys
    print("no number")
    pathlib.Path(sys.argv[1]).write_text('{\\n"value": 2.5\\n}')
    """
    words = [*script(tmp_path, source), "{result_file}", "{params_json}"]
    assert CommandObjective(words, result="file:out.json", workdir=tmp_path)(TRIAL) == 2.5
    # It lay in a folder of its own, which is gone.
    assert not list(tmp_path.glob("**/out.json"))
    assert CommandObjective(words, result="file:out/{number}.json", workdir=tmp_path)(TRIAL) == 2.5
    assert (tmp_path / "out" / "7.json").exists()


@pytest.mark.parametrize(
    ("result", "pool"),
    [
        ("file:{pool}", "../outside.json"),
        ("file:{pool}", "/etc/passwd"),
        ("file:{pool}", ".."),
        ("file:{pool}", ""),
        ("file:{pool}{pool}/out.json", "."),
        ("file:{number}/{pool}", "../../outside.json"),
        ("file:{number}-{pool}.json", "a\0b"),
    ],
)
def test_a_value_cannot_move_the_result_file_to_another_folder(tmp_path, result, pool):
    words = [*script(tmp_path, "import pathlib, sys; pathlib.Path('ran').touch()"), "{params_json}", "{result_file}"]
    (tmp_path / "work").mkdir()
    (tmp_path / "outside.json").write_text("1")
    command = CommandObjective(words, result=result, workdir=tmp_path / "work")
    with pytest.raises(CommandError, match=r"the result file '.*' (cannot be made with|would be)"):
        command(replace(TRIAL, params={**TRIAL.params, "pool": pool}))
    assert (tmp_path / "outside.json").read_text() == "1"
    assert list((tmp_path / "work").iterdir()) == []


def test_a_result_file_of_an_earlier_attempt_is_not_read(tmp_path):
    (tmp_path / "7.json").write_text("1.0")
    command = CommandObjective([*script(tmp_path, ""), "{params_json}"], result="file:{number}.json", workdir=tmp_path)
    with pytest.raises(CommandError, match=r"wrote no 7\.json"):
        command(TRIAL)


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["p", "{lr}", "{layer}"], {}, r"uses \{layer\}, but there is only \{lr\}, .*did you mean \{layers\}\?"),
        (["p", "{lr}", "{}"], {}, r"uses \{\}, but there is only"),
        (["p", "{lr}"], {}, r"never uses parameter 'layers': add \{layers\}, or \{params_json\} for all of them"),
        (["p", "{lr"], {}, r"a single '\{' in '\{lr'"),
        ([], {}, "at least the name of a program"),
        ("p 'open", {}, "cannot be split into words: No closing quotation"),
        (["p", "{params_json}"], {"result": "stdout"}, "must be 'last line' or 'file:NAME', got 'stdout'"),
        (["p", "{params_json}", "{result_file}"], {}, "needs result = 'file:NAME'"),
        (["p", "{params_json}"], {"result": "file:x.json"}, "would be one file for all trials"),
        (["p", "{params_json}"], {"env": {"A": "{nothing}"}}, r"uses \{nothing\}"),
        (["p", "{params_json}"], {"result": "file:{number}{nothing}"}, r"uses \{nothing\}"),
    ],
)
def test_a_template_that_does_not_fit_is_refused_at_once(words, options, message):
    with pytest.raises(ValueError, match=message):
        CommandObjective(words, **options, names=("lr", "layers"))


def test_a_parameter_may_not_have_the_name_of_a_placeholder_of_our_own():
    with pytest.raises(ValueError, match="'fidelity' has the name of a placeholder"):
        CommandObjective("p {params_json}", names=("fidelity",))


def test_a_command_is_a_value():
    command = CommandObjective(["p", "{lr}"], env={"B": "1", "A": "2"})
    assert pickle.loads(pickle.dumps(command)) == command == CommandObjective("p {lr}", env={"A": "2", "B": "1"})
    assert hash(command) == hash(CommandObjective("p {lr}", env={"A": "2", "B": "1"}))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            # What has ended but was not waited for by whoever adopted it is dead.
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


# A program with a child of its own, both of which would sleep for long; it says who they are.
SLEEPER = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
path = pathlib.Path(__file__).with_name("pids.tmp")
path.write_text(f"{os.getpid()} {child.pid}")
path.rename(path.with_suffix(".txt"))
time.sleep(600)
"""
CALLER = """
import signal
import sys
from bmbo.cli.command_objective import CommandObjective
from bmbo.executors import LocalProcessExecutor
from bmbo.study.trial import Trial
# Who runs these tests in the background has a shell that makes all its programs deaf to interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    CommandObjective(["{python}", sys.argv[1], "{params_json}"])(Trial(number=0, params={}, fidelity=1, level=0))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_program_and_its_children_do_not_outlive_an_interrupted_caller(tmp_path, how):
    path = script(tmp_path, SLEEPER)[1]
    caller = subprocess.Popen([sys.executable, "-c", CALLER, path], stdout=subprocess.PIPE, text=True)
    until((tmp_path / "pids.txt").exists)
    pids = [int(pid) for pid in (tmp_path / "pids.txt").read_text().split()]
    assert all(alive(pid) for pid in pids)
    caller.send_signal(how)
    printed, _ = caller.communicate(timeout=120)
    until(lambda: not any(alive(pid) for pid in pids))
    assert printed == ("interrupted\n" if how is signal.SIGINT else "")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_program_ends_with_the_trial_that_timed_out(tmp_path):
    command = CommandObjective([*script(tmp_path, SLEEPER), "{params_json}"])
    executor = LocalProcessExecutor(1, trial_timeout=8.0)
    try:
        executor.submit(0, partial(command, TRIAL))
        finished = []
        until(lambda: finished or finished.extend(executor.collect(1.0)))
        assert finished[0].error == "timed out after 8 s"
    finally:
        executor.close()
    pids = [int(pid) for pid in (tmp_path / "pids.txt").read_text().split()]
    until(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_a_program_leaves_running_ends_with_it(tmp_path):
    source = """
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(child.pid)
    """
    pid = int(number(CommandObjective([*script(tmp_path, source), "{params_json}"])(TRIAL)))
    until(lambda: not alive(pid))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--lr", "{lr}", "--depth", "{depth}"], ["--lr", "0.5"]),
        (["--depth={depth}", "{lr}"], ["0.5"]),
        (["a", "{depth}", "{lr}"], ["a", "0.5"]),
    ],
)
def test_words_of_a_parameter_that_does_not_exist_are_left_out(echo, tmp_path, words, expected):
    command = CommandObjective([*echo, *words], env={"DEPTH_SEEN": "{depth}"}, names=("lr", "depth"))
    assert command(replace(TRIAL, params={"lr": 0.5})) == 1.5
    assert seen(tmp_path)["argv"] == expected
    assert "DEPTH_SEEN" not in seen(tmp_path)["env"]


def test_a_result_file_cannot_have_the_name_of_a_parameter_that_does_not_exist(tmp_path):
    words = [*script(tmp_path, ""), "{lr}", "{number}", "{depth}"]
    with pytest.raises(ValueError, match=r"the command uses \{depth\}, but there is only"):
        CommandObjective(words, names=("lr",))
    command = CommandObjective(words, result="file:{number}-{depth}.json", names=("lr", "depth"))
    with pytest.raises(CommandError, match="cannot be made with depth=''"):
        command(replace(TRIAL, params={"lr": 0.5}))
