"""Where computations run and where compiled programs are kept."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import jax
import platformdirs

Device = Literal["auto", "cpu", "gpu"]

CACHE_VARIABLE = "BMBO_CACHE"
"""Folder of compiled programs; "off" keeps none on disk. Unset: a folder of the user's cache."""


def enable_cache() -> None:
    """Keeps compiled programs on disk, so that a second run compiles nothing, unless the user chose otherwise.

    Called by a study before its first computation, never on import. A cache that JAX was already told of stays.
    """
    wanted = os.environ.get(CACHE_VARIABLE, "")
    if wanted.lower() == "off" or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    folder = wanted or os.path.join(platformdirs.user_cache_dir("bmbo"), "compiled")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return  # a home without room or rights costs compile time, nothing else
    jax.config.update("jax_compilation_cache_dir", folder)


def choose_device(device: Device) -> jax.Device:
    """Where to compute; "auto" is a GPU where there is one (docs/design.md, "Devices")."""
    if device == "cpu":
        return jax.devices("cpu")[0]
    try:
        return jax.devices("gpu")[0]
    except RuntimeError:
        if device == "gpu":
            raise RuntimeError(
                "device='gpu' was asked for, but JAX sees none; install jax with CUDA, or use 'auto'"
            ) from None
    return jax.devices("cpu")[0]


@contextmanager
def computing_on(device: Device) -> Generator[jax.Device]:
    """Runs what is inside on the chosen device."""
    chosen = choose_device(device)
    with jax.default_device(chosen):
        yield chosen
