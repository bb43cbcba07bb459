"""Test runs of the comparisons in processes: crashes, timeouts, kills and resuming."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bmbo.protocols import Finished
from experiments import __main__ as program
from experiments.harness import run_record as records
from experiments.harness.campaign import Campaign
from experiments.harness.run_settings import Settings, Task
from experiments.harness.subprocess_job import thread_limits
from experiments.reporting.curves import cumulative_costs
from experiments.reporting.summary import determinism
from support.experiment_records import record_of

# Every run of a campaign is a process.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Return the folder that the methods of the plugin write to."""
    monkeypatch.setenv("EXPERIMENT_PLUGIN_FOLDER", str(tmp_path))
    return tmp_path


def options(folder, methods, seeds=1):
    """Return a command line for runs of five evaluations that cost 4 each, after starts that cost 1 and 4."""
    common = ["run", "--problems", "line", "--num-starts", "1", "--total-cost", "25", "--quiet"]
    where = ["--records", str(folder / "records"), "--plugin", "support.experiment_plugin"]
    return [*common, *where, "--seeds", str(seeds), "--methods", *methods]


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that ended, but whose parent has not waited for it, is dead too.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_crash_or_a_hang_of_one_run_does_not_stop_the_others(plugin, capsys):
    command = options(plugin, ["dies", "raises", "absent", "even"])
    assert program.main([*command, "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert "2 crashed, 1 finished, 1 not installed" in said
    assert "pip install absent" in said
    found = {record.task.method: record for record in records.read_all(plugin / "records")}
    assert set(found) == {"dies", "raises", "even"}
    assert found["raises"].reason == "ArithmeticError: no more of this"
    assert "signal 9" in found["dies"].reason
    # Starts and two evaluations. The last one waited for the recommendation after it.
    assert [row.batch for row in found["raises"].evaluations] == [0, 0, 1, 2]
    assert [row.batch for row in found["dies"].evaluations][:3] == [0, 0, 1]
    assert found["even"].header["start_cost"] == 5.0
    np.testing.assert_allclose(cumulative_costs(found["even"]), [1, 5, 9, 13, 17, 21, 25])


def test_a_run_that_hangs_is_killed_and_recorded_as_hung(plugin):
    assert program.main([*options(plugin, ["hangs"]), "--timeout-per-run", "10"]) == 0
    (record,) = records.read_all(plugin / "records")
    assert record.status == "timed out"
    assert "10 s" in record.reason
    pid = int((plugin / "hanging").read_text())
    wait_for(lambda: not alive(pid))


def test_after_a_kill_finished_runs_are_kept_and_the_others_redone(plugin):
    command = options(plugin, ["gated"], seeds=2)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    driver = subprocess.Popen([sys.executable, "-m", "experiments", *command], cwd=plugin, env=environment)
    try:
        wait_for((plugin / "waiting").exists)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    folder = plugin / "records" / "line" / "gated"
    assert sorted(path.name for path in folder.iterdir()) == ["0.jsonl.gz", "1.partial"]
    first = (folder / "0.jsonl.gz").read_bytes()
    pid = int((plugin / "waiting").read_text())
    wait_for(lambda: not alive(pid))
    (plugin / "gate").touch()
    assert program.main(command) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["0.jsonl.gz", "1.jsonl.gz"]
    assert (folder / "0.jsonl.gz").read_bytes() == first
    assert {record.status for record in records.read_all(folder)} == {"finished"}


def test_a_method_that_is_not_the_same_twice_is_found_out(plugin):
    assert program.main([*options(plugin, ["even", "wild"]), "--check-determinism", "--jobs", "2"]) == 0
    found = determinism(records.read_all(plugin / "records"))
    assert found == {"even": {"line": True}, "wild": {"line": False}}


def test_records_under_other_rules_are_not_mixed_in(plugin, capsys):
    record = record_of("even", "line", 0)
    records.write(plugin / "records", record.task, records.lines(record))
    assert program.main(options(plugin, ["even"])) == 2
    assert "choose another --records folder" in capsys.readouterr().err


@pytest.mark.slow
def test_ray_runs_the_same(plugin):
    pytest.importorskip("ray")
    assert program.main([*options(plugin, ["even"]), "--engine", "ray"]) == 0
    (ours,) = records.read_all(plugin / "records")
    assert ours.status == "finished", ours.reason


def test_a_hung_run_is_recorded_with_what_it_had_found(tmp_path):
    task = Task("p", "a", 0)
    campaign = Campaign(tmp_path, [task], {"p": Settings(31.0, 5, 1)})
    path = records.partial_path_of(tmp_path, task)
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(records.lines(record_of())[:3]))
    campaign._keep(task, Finished(0, None, 7.0, "timed out after 7 s"))
    found = records.read(records.path_of(tmp_path, task))
    assert (found.status, found.reason, found.seconds) == ("timed out", "timed out after 7 s", 7.0)
    assert found.evaluations == record_of().evaluations[:2]
    assert not path.exists()


def test_crashed_runs_are_done_again_only_when_asked(tmp_path):
    crashed = record_of("a", "p", 0, status="crashed", reason="bad luck")
    records.write(tmp_path, crashed.task, records.lines(crashed))
    campaign = Campaign(tmp_path, [crashed.task], {"p": Settings(**crashed.header["settings"])})
    assert campaign.left() == []
    assert replace(campaign, retry_failed=True).left() == [crashed.task]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--problems", "nowhere"], "there is no problem 'nowhere'"),
        (["--methods", "nothing"], "there is no method 'nothing'"),
        (["--total-cost", "100"], "the starts of levy cost 110"),
    ],
)
def test_wrong_options_are_answered_in_a_sentence(changed, message, tmp_path, capsys):
    command = ["run", "--problems", "levy", "--methods", "random", "--records", str(tmp_path), *changed]
    assert program.main(command) == 2
    assert message in capsys.readouterr().err


def test_threads_are_held_to_a_share_of_the_cores(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=there")
    limits = thread_limits(1)
    assert limits["OMP_NUM_THREADS"] == limits["NPROC"] == "1"
    assert limits["XLA_FLAGS"] == "--xla_dump_to=there --xla_cpu_multi_thread_eigen=false"
    assert "XLA_FLAGS" not in thread_limits(2)
