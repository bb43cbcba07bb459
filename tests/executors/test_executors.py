"""Executors: one suite over all three, and what each of them adds."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import ray
import ray.exceptions

import bmbo.executors.ray as ray_module
from bmbo.executors import InlineExecutor, LocalProcessExecutor, make_executor
from bmbo.executors.ray import RayExecutor
from bmbo.protocols import Executor
from bmbo.testing import check_executor

PATIENCE = 60.0


@pytest.fixture
def processes():
    executor = LocalProcessExecutor(2)
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def local_ray():
    """A Ray of several processes that the first executor starts; those made while it lives use it."""
    executor = RayExecutor(2)
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


# --- the suite ------------------------------------------------------------------------------------------------------


def test_this_process_keeps_the_contract():
    check_executor(lambda num_workers, timeout: make_executor("inline", num_workers, timeout), isolated=False)


def test_local_processes_keep_the_contract():
    check_executor(lambda num_workers, timeout: make_executor("process", num_workers, timeout), isolated=True)


@pytest.mark.slow
def test_ray_keeps_the_contract(local_ray):
    assert isinstance(local_ray, Executor)
    check_executor(lambda num_workers, timeout: make_executor("ray", num_workers, timeout), isolated=True)


class Forgetful(InlineExecutor):
    """Loses the text of an error."""

    def collect(self, seconds):
        return [type(each)(each.number, each.value, each.seconds) for each in super().collect(seconds)]


def test_the_suite_refuses_an_executor_that_hides_errors():
    with pytest.raises(AssertionError, match="the error should be 'ValueError"):
        check_executor(lambda num_workers, timeout: Forgetful(), isolated=False)  # noqa: ARG005


# --- choosing one ---------------------------------------------------------------------------------------------------


def test_auto_is_this_process_for_one_worker_and_processes_otherwise():
    assert isinstance(make_executor("auto", 1), InlineExecutor)
    assert isinstance(make_executor("auto", 2), LocalProcessExecutor)
    assert isinstance(make_executor("auto", 1, 5.0), LocalProcessExecutor)


def test_an_executor_of_ones_own_is_given_back(processes):
    assert make_executor(processes, 1) is processes
    with pytest.raises(ValueError, match="give the timeout of 5 s to the executor itself"):
        make_executor(processes, 1, 5.0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("dask", 2), "executor must be one of .*'process', 'ray'.* got 'dask'"),
        (("inline", 2), "runs one trial at a time, got 2 workers"),
        (("inline", 1, 5.0), "cannot end a trial that hangs"),
        (("process", 0), "number of workers must be a whole number of at least 1, got 0"),
        (("process", True), "number of workers must be a whole number of at least 1, got True"),
        (("process", 2, 0.0), "trial_timeout must be a number of seconds above 0, or None, got 0.0"),
        (("process", 2, float("nan")), "trial_timeout must be .* got nan"),
    ],
)
def test_a_wrong_choice_is_refused_in_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_executor(*arguments)


@pytest.mark.usefixtures("as_a_user")
def test_what_is_no_executor_is_refused():
    with pytest.raises(TypeError, match=r"executor must be one of .* got 3"):
        make_executor(3, 1)  # pyright: ignore[reportArgumentType]


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "bmbo.executors.ray")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'bmbo\[ray\]'"):
        make_executor("ray", 1)


@pytest.mark.parametrize("make", [InlineExecutor, lambda: LocalProcessExecutor(1)], ids=["inline", "process"])
def test_too_many_jobs_and_a_closed_executor_are_refused(make):
    executor = make()
    executor.submit(0, lambda: 1)
    with pytest.raises(RuntimeError, match="all workers are busy: collect before submitting job 1"):
        executor.submit(1, lambda: 2)
    executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(2, lambda: 3)


# --- in this process ------------------------------------------------------------------------------------------------


def test_an_interrupt_passes_through_this_process():
    def interrupted():
        raise KeyboardInterrupt

    executor = InlineExecutor()
    executor.submit(0, interrupted)
    with pytest.raises(KeyboardInterrupt):
        executor.collect(1.0)


def test_a_job_runs_when_it_is_collected_and_not_before():
    calls = []
    executor = InlineExecutor()
    executor.submit(0, lambda: calls.append(os.getpid()))
    assert calls == []
    executor.collect(0.0)
    assert calls == [os.getpid()]


# --- Ray ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_job_of_ray_runs_in_a_process_of_rays_own(local_ray):
    assert outcome(local_ray, os.getpid).value in {process.pid for process in psutil.Process().children(recursive=True)}


@pytest.mark.slow
def test_a_local_ray_listens_on_the_loopback_address_only(local_ray):
    assert outcome(local_ray, lambda: 1).value == 1
    places = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            places |= {each.laddr.ip for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN}
    assert places
    assert places <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_a_ray_that_ran_already_is_left_running():
    executor = RayExecutor(1, num_cpus=0.5)
    assert outcome(executor, lambda: 3).value == 3
    executor.close()
    assert ray.is_initialized()


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_a_job_sees_the_resources_that_it_was_given():
    executor = RayExecutor(1, num_cpus=2)
    try:
        assigned = outcome(executor, lambda: ray.get_runtime_context().get_assigned_resources()).value
    finally:
        executor.close()
    assert assigned == {"CPU": 2.0}


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_ray_refuses_what_is_no_amount():
    with pytest.raises(ValueError, match="num_gpus must be a finite number of at least 0, got -1"):
        RayExecutor(1, num_gpus=-1)


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_a_timeout_in_ray_does_not_count_the_wait_for_resources():
    taken = RayExecutor(1, num_cpus=2)
    executor = RayExecutor(1, 4.0)
    try:
        taken.submit(0, lambda: time.sleep(6.0))
        # Until it runs, it may be the other one that waits.
        taken.collect(0.5)
        assert outcome(executor, lambda: 8).value == 8
    finally:
        executor.close()
        taken.close()


def test_only_a_lost_place_makes_a_job_lost():
    errors = ray.exceptions
    lost = [errors.NodeDiedError("gone"), errors.OwnerDiedError("00", None, ""), errors.LocalRayletDiedError()]
    failed = [errors.WorkerCrashedError(), errors.OutOfMemoryError("full"), errors.TaskCancelledError()]
    assert all(ray_module._is_lost(error) for error in lost)
    assert not any(ray_module._is_lost(error) for error in failed)
    assert ray_module._reason(failed[1]) == "killed by Ray: out of memory"


NODE = """
import sys, time
from pathlib import Path
from ray.cluster_utils import Cluster
from bmbo.executors.ray import RayExecutor
from bmbo.executors.ray_private import bound_to_loopback

with bound_to_loopback():
    # No CPUs on the first node: jobs run on the second.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    executor = RayExecutor(1, address=cluster.address)
started = Path(sys.argv[1]) / "started"

def hang():
    started.touch()
    time.sleep(1000)

executor.submit(3, hang)
while not started.exists():
    executor.collect(0.1)
cluster.remove_node(node, allow_graceful=False)
while not (found := executor.collect(1.0)):
    pass
executor.close()
cluster.shutdown()
print(found[0].number, found[0].lost, found[0].error)
"""


@pytest.mark.slow
def test_a_job_on_a_node_of_ray_that_is_lost_should_be_run_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(NODE)
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("3 True lost by Ray: NodeDiedError")


@pytest.mark.slow
def test_the_address_of_a_module_does_not_hide_ray_itself():
    assert ray_module.ray is ray
    assert Path(ray.__file__).parent.name == "ray"
