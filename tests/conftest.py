"""Set what every test runs under."""

import os
from pathlib import Path

# Before JAX is imported: the processes of a run, and later runs, share what they compile. Most of the time of the tests
# is compilation. `make clean` removes the folder. The cache of the package itself stays off: its tests switch it on.
os.environ["BMBO_CACHE"] = "off"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import jax
import pytest
from hypothesis import settings
from jaxtyping import config as jaxtyping_config

# A [q] array silently stretched over [s q] is how wrong shapes hide.
jax.config.update("jax_numpy_rank_promotion", "raise")

# No deadline: compilation takes a second on the first example. Derandomised: a failure comes back on the next run.
settings.register_profile("examples", deadline=None, derandomize=True)
settings.load_profile("examples")


@pytest.fixture
def as_a_user():
    """Switch run-time type checks off, so that a test meets our own sentences as a user does."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Let go of what the tests of a file compiled: hundreds of programs would fill the memory by the end."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def leave_no_traces():
    """Fail a test that leaves files of a study in the working directory: a user would find them there too."""
    folder = Path.cwd()
    before = _files_of_studies(folder)
    yield
    left = _files_of_studies(folder) - before
    assert not left, f"the test, or one that ran beside it, left {sorted(left)} in the working directory"


def _files_of_studies(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if name.endswith(("-checkpoints", ".db", ".journal", ".html", ".csv"))}
