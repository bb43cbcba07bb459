"""Processes of this machine: what they say when they break, what they share, and that they die with the driver."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import cloudpickle
import psutil
import pytest

from bmbo.executors import LocalProcessExecutor, make_executor

PATIENCE = 60.0


@pytest.fixture
def processes():
    executor = LocalProcessExecutor(2)
    yield executor
    executor.close()


def outcome(executor, job, number=0):
    executor.submit(number, job)
    return first(executor)


def first(executor):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        finished = executor.collect(1.0)
        if finished:
            return finished[0]
    raise AssertionError("nothing finished")


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def is_dead(pid):
    """Gone, or a zombie that nobody has asked after yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- what breaks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal 9 (out of memory?)"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "killed by signal 11 (SIGSEGV)"),
        (lambda: os._exit(3), "the process ended with exit code 3"),
        (lambda: os.closerange(3, 100) or time.sleep(100), "the process closed its connection"),
        (
            threading.Lock,
            "the result of type lock cannot be sent back (TypeError: cannot pickle '_thread.lock' object); "
            "return a number",
        ),
    ],
    ids=["killed", "segfault", "exit", "closed", "unpicklable"],
)
def test_a_job_that_breaks_its_process_says_how(processes, job, error):
    assert outcome(processes, job).error == error
    assert outcome(processes, lambda: 7).value == 7


def forked(path, release):
    """A job that forks: the copy returns too, after the driver has given its parent the next job."""
    child = os.fork()
    if child:
        path.write_text(str(child))
        return "parent"
    while not release.exists():
        time.sleep(0.01)
    return "copy"


def test_a_copy_that_a_job_forks_answers_for_no_job(tmp_path):
    path, release = tmp_path / "child", tmp_path / "release"
    executor = LocalProcessExecutor(1)
    try:
        assert outcome(executor, partial(forked, path, release), number=1).value == "parent"
        child = int(path.read_text())

        def second():
            release.touch()
            wait_for(lambda: is_dead(child))
            return "second"

        assert outcome(executor, second, number=2).value == "second"
        assert outcome(executor, lambda: "third", number=3).value == "third"
    finally:
        executor.close()


def test_a_message_of_another_job_is_not_taken_for_an_answer(processes):
    processes.submit(1, lambda: "right")
    (worker,) = processes._workers
    worker.ticket += 1  # as if the job were another one, so that its messages are late
    wait_for(worker.connection.poll)
    assert processes.collect(1.0) == []
    worker.ticket -= 1
    worker.connection.send_bytes(pickle.dumps((worker.ticket, cloudpickle.dumps(lambda: "again"))))
    assert first(processes).value == "again"


def test_a_timeout_says_so_and_counts_the_seconds():
    executor = LocalProcessExecutor(1, 0.5)
    try:
        got = outcome(executor, lambda: time.sleep(100), number=4)
        assert (got.number, got.error) == (4, "timed out after 0.5 s")
        assert got.seconds >= 0.5
    finally:
        executor.close()


def slow_to_load():
    time.sleep(4.0)
    return lambda: "loaded"


class SlowToLoad:
    """As a module that imports a large library."""

    def __call__(self):
        raise NotImplementedError

    def __reduce__(self):
        return slow_to_load, ()


@pytest.mark.slow
def test_loading_a_job_does_not_count_against_its_timeout():
    executor = LocalProcessExecutor(1, 3.0)
    try:
        assert outcome(executor, SlowToLoad()).value == "loaded"
    finally:
        executor.close()


def test_a_worker_is_kept_for_the_next_job(processes):
    pids = {outcome(processes, os.getpid).value for _ in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_an_idle_worker_that_was_killed_is_replaced(processes):
    pid = outcome(processes, os.getpid).value
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: processes._workers[0].process.poll() is not None)
    got = outcome(processes, os.getpid)
    assert got.error is None
    assert got.value != pid


def test_a_job_whose_child_outlives_it_is_still_seen_to_crash(processes):
    def leaving_a_child():
        # A forked child inherits the connection, and keeps it open.
        if os.fork() == 0:
            time.sleep(100)
        os._exit(5)

    assert outcome(processes, leaving_a_child).error == "the process ended with exit code 5"


def test_a_worker_has_a_session_of_its_own_so_that_an_interrupt_of_the_terminal_stays_here(processes):
    session, group, pid = outcome(processes, lambda: (os.getsid(0), os.getpgrp(), os.getpid())).value
    assert session == group == pid != os.getsid(0)


def test_an_exception_carries_where_it_was_raised(processes):
    def inner():
        raise KeyError("absent")

    got = outcome(processes, inner)
    assert got.error == "KeyError: 'absent'"
    assert isinstance(got.exception, KeyError)
    assert "in inner" in got.exception.__notes__[0]


def test_a_long_error_is_shortened(processes):
    def long():
        raise ValueError("x" * 10_000)

    assert len(outcome(processes, long).error) < 600


class AwkwardError(Exception):
    """Neither its text nor a note can be had."""

    def __str__(self):
        raise RuntimeError("no text")

    def add_note(self, _):
        raise RuntimeError("no notes")


@pytest.mark.slow
def test_an_exception_that_cannot_say_its_text_has_its_name(processes):
    def awkward():
        raise AwkwardError

    assert outcome(processes, awkward).error == "AwkwardError"
    inline = make_executor("inline", 1)
    assert outcome(inline, awkward).error == "AwkwardError"


def unreadable():
    raise RuntimeError("only there")


class Unreadable:
    def __reduce__(self):
        return unreadable, ()


@pytest.mark.slow
def test_a_result_that_cannot_be_read_back_is_an_error(processes):
    got = outcome(processes, Unreadable)
    assert got.value is None
    assert got.error == "the result cannot be read here (RuntimeError: only there); return a number"


def test_a_job_that_cannot_be_sent_is_refused_at_once(processes):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the objective cannot be sent to another process .*executor='inline'"):
        processes.submit(0, lock.locked)
    assert outcome(processes, lambda: 1).value == 1


def test_a_job_that_cannot_be_loaded_says_why(processes, tmp_path, monkeypatch):
    (tmp_path / "only_once.py").write_text("def job():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_once  # noqa: PLC0415  # pyright: ignore[reportMissingImports]

    assert outcome(processes, only_once.job).value == 1
    (tmp_path / "only_once.py").write_text("raise ImportError('a library is missing')\n")
    processes.close()
    executor = LocalProcessExecutor(1)
    try:
        got = outcome(executor, only_once.job)
    finally:
        executor.close()
    assert got.error == "the job could not be loaded: ImportError: a library is missing"


def test_jobs_inherit_the_environment_the_folder_and_the_arguments(processes, monkeypatch, tmp_path):
    monkeypatch.setenv("COLOUR", "green")
    monkeypatch.chdir(tmp_path)
    got = outcome(processes, lambda: (os.environ["COLOUR"], os.getcwd(), sys.argv)).value
    assert got == ("green", str(tmp_path), sys.argv)


def test_a_worker_does_not_import_the_package(processes):
    loaded = outcome(processes, lambda: [name for name in ("bmbo", "jax", "ray") if name in sys.modules]).value
    assert loaded == []


DRIVER = """
import os, subprocess, sys, time
from bmbo.executors import make_executor

factor = 2

def objective():
    print("said by the job")
    return factor * 21

executor = make_executor("process", 2)
executor.submit(0, objective)
while not (found := executor.collect(1.0)):
    pass
print(found[0].value, flush=True)
{rest}
executor.close()
"""

HANGING = """
import ctypes
from pathlib import Path
folder = Path(sys.argv[1])

def hang(deaf):
    child = subprocess.Popen(["sleep", "1000"])
    pids = folder / f"{deaf}.part"
    pids.write_text(f"{os.getpid()} {child.pid}")
    pids.rename(folder / f"{deaf}.pids")
    # The second keeps the interpreter's lock, as native code does: no thread of its process ever runs again.
    ctypes.PyDLL(None).sleep(1000) if deaf else time.sleep(1000)

import functools
executor.submit(1, functools.partial(hang, False))
executor.submit(2, functools.partial(hang, True))
executor.collect(1000.0)
"""


@pytest.mark.slow
def test_a_script_without_a_guard_runs_once_and_its_jobs_print(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(DRIVER.format(rest=""))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.splitlines() == ["said by the job", "42"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="where the kernel watches")
def test_workers_and_what_they_started_die_with_a_driver_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(DRIVER.format(rest=HANGING))
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdout=subprocess.DEVNULL) as driver:
        files = [tmp_path / "False.pids", tmp_path / "True.pids"]
        wait_for(lambda: all(file.exists() for file in files))
        pids = [int(pid) for file in files for pid in file.read_text().split()]
        assert len(pids) == 4
        assert not any(is_dead(pid) for pid in pids)
        driver.kill()
    for pid in pids:
        wait_for(lambda: is_dead(pid))  # noqa: B023


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + ".part", "w").write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        time.sleep(1000)
    os._exit(0)
os._exit(0)
"""


def leave_a_daemon(path):
    subprocess.run([sys.executable, "-S", "-c", DAEMON, path], check=True)
    time.sleep(1000)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, a daemon has no parent that could be found")
def test_a_daemon_does_not_outlive_the_job_that_timed_out(tmp_path):
    executor = LocalProcessExecutor(1, 1.0)
    try:
        assert outcome(executor, partial(leave_a_daemon, str(tmp_path / "pid"))).error == "timed out after 1 s"
    finally:
        executor.close()
    wait_for(lambda: is_dead(int((tmp_path / "pid").read_text())))
