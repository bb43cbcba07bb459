"""Where computations run, and who decides where compiled programs are kept."""

import os
import subprocess
import sys

import jax
import pytest

from bmbo.policies import device_and_cache as runtime

SCRIPT = """
import jax
{before}
from bmbo.policies.device_and_cache import enable_cache
enable_cache()
print(jax.config.jax_compilation_cache_dir)
"""

WITHOUT_GPU = pytest.mark.skipif(jax.default_backend() == "gpu", reason="there is a GPU")


def cache_folder(wanted, before="", **variables):
    """What a fresh process has as its cache after bmbo had its say."""
    mine = {
        name: value for name, value in os.environ.items() if name not in ("BMBO_CACHE", "JAX_COMPILATION_CACHE_DIR")
    }
    chosen = {} if wanted is None else {"BMBO_CACHE": wanted}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)],
        capture_output=True,
        text=True,
        check=True,
        env={**mine, **chosen, **variables},
    )
    return done.stdout.strip()


def test_off_leaves_the_configuration_alone(monkeypatch):
    before = jax.config.values["jax_compilation_cache_dir"]
    for spelling in ("off", "OFF"):
        monkeypatch.setenv("BMBO_CACHE", spelling)
        runtime.enable_cache()
        assert jax.config.values["jax_compilation_cache_dir"] == before


@pytest.mark.slow
def test_a_folder_of_the_users_choice_is_made_and_used(tmp_path):
    folder = tmp_path / "here" / "compiled"
    assert cache_folder(str(folder)) == str(folder)
    assert folder.is_dir()


@pytest.mark.slow
def test_without_a_choice_the_users_own_cache_is_used(tmp_path):
    found = cache_folder(None, HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"), LOCALAPPDATA=str(tmp_path))
    assert found.startswith(str(tmp_path))
    assert "bmbo" in found


@pytest.mark.slow
def test_a_cache_that_jax_was_told_of_stays(tmp_path):
    theirs = str(tmp_path / "theirs")
    before = f"jax.config.update('jax_compilation_cache_dir', {theirs!r})"
    assert cache_folder(str(tmp_path / "ours"), before) == theirs


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    assert cache_folder(str(tmp_path / "file" / "below")) == "None"


@WITHOUT_GPU
def test_a_gpu_that_is_not_there_is_a_clear_error():
    with pytest.raises(RuntimeError, match="device='gpu' was asked for, but JAX sees none"):
        runtime.choose_device("gpu")


@WITHOUT_GPU
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_without_a_gpu_the_cpu_computes(device):
    assert runtime.choose_device(device).platform == "cpu"


@pytest.mark.usefixtures("as_a_user")
def test_a_gpu_that_is_there_is_taken_unless_the_cpu_is_asked_for(monkeypatch):
    cpu = jax.devices("cpu")[0]
    monkeypatch.setattr(jax, "devices", lambda kind: ["a gpu"] if kind == "gpu" else [cpu])
    assert [runtime.choose_device(device) for device in ("auto", "gpu", "cpu")] == ["a gpu", "a gpu", cpu]


def test_computations_run_on_the_chosen_device():
    with runtime.computing_on("cpu") as chosen:
        assert jax.numpy.ones(2).devices() == {chosen}
