"""What every test runs under."""

import os

# Before bmbo is imported: a test must not read what an earlier run compiled.
os.environ["BMBO_CACHE"] = "off"

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
    """Run-time type checks off: a user meets our own sentences."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Lets go of what a file's tests compiled: hundreds of programs would fill the memory by the end."""
    yield
    jax.clear_caches()
