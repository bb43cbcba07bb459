"""A job of Ray that no machine of the cluster can run, with a stand-in for the cluster."""

import pytest

ray = pytest.importorskip("ray")


class Task:
    """A remote function whose jobs never start."""

    def remote(self, payload):
        assert payload
        return object()


@pytest.fixture
def cluster(monkeypatch):
    """The machines of a cluster; tests may change the list."""
    machines = [{"Alive": True, "Resources": {"CPU": 8.0, "GPU": 1.0}}, {"Alive": False, "Resources": {"GPU": 8.0}}]
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "remote", lambda **_: lambda _: Task())
    monkeypatch.setattr(ray, "wait", lambda streams, **_: ([], streams))
    monkeypatch.setattr(ray, "cancel", lambda *_, **__: None)
    monkeypatch.setattr(ray, "nodes", lambda: machines)
    monkeypatch.setattr("bmbo.executors.ray.LOOK_SECONDS", 0.0)
    return machines


def waiting(**needs):
    from bmbo.executors.ray import RayExecutor  # noqa: PLC0415 - Ray is an extra

    executor = RayExecutor(2, **needs)
    executor.submit(0, lambda: None)
    return executor


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("needs", [{"num_gpus": 4}, {"num_cpus": 16}])
def test_a_job_that_no_machine_can_run_ends_the_run_with_a_sentence(needs):
    with pytest.raises(RuntimeError, match="no machine of the Ray cluster has that: there are at most 8 CPUs"):
        waiting(**needs, resource_timeout=0).collect(0.0)


@pytest.mark.slow
def test_a_machine_that_comes_in_time_is_waited_for(cluster, caplog):
    executor = waiting(num_gpus=4, resource_timeout=1000)
    assert executor.collect(0.0) == []
    assert "waiting 1000 s for such a machine" in caplog.text
    cluster.append({"Alive": True, "Resources": {"CPU": 8.0, "GPU": 4.0}})
    assert executor.collect(0.0) == []
    assert executor._without_machine_since is None
