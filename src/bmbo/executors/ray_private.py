"""Hold every use of private names of Ray: no other file of the package uses any.

pyproject.toml bounds Ray's version because of these names.
"""

import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager

CLEANUP = "RAY_process_group_cleanup_enabled"
"""Ray's environment variable; with "1", the processes that a killed job has started are killed with it."""


@contextmanager
def bound_to_loopback() -> Generator[None]:
    """Make Ray listen on the loopback address only, if it is started inside this context.

    `ray_constants.ENABLE_RAY_CLUSTER` is needed because Ray replaces 127.0.0.1 by a reachable address while it is true.
    Ray reads the environment variable for it, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER, only on import, and the user may have
    imported Ray already. If the name goes, remove its lines: `RayExecutor` warns if Ray listens on another address.
    """
    from ray._private import ray_constants  # noqa: PLC0415 - Ray is an extra

    clusters = ray_constants.ENABLE_RAY_CLUSTER
    cleanup = os.environ.get(CLEANUP)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[CLEANUP] = cleanup or "1"
    try:
        with warnings.catch_warnings():
            # JAX warns of every fork, but the forks of Ray are harmless: they call exec at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        if cleanup is None:
            del os.environ[CLEANUP]
