"""Where computations run and where compiled programs are kept."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import jax
import platformdirs

Device = Literal["auto", "cpu", "gpu"]

CACHE_VARIABLE = "BMBO_CACHE"
"""Folder of compiled programs; "off" keeps none on disk. Unset: a folder of the user's cache."""

GPU_FROM_OBSERVATIONS = 2000
"""Observations from which a GPU, where there is one, is worth its latency: see docs/design.md, "Devices"."""


def enable_cache() -> None:
    """Keeps compiled programs on disk, so that a second run compiles nothing, unless the user chose otherwise.

    Called by a study before its first computation, never on import. A cache that JAX was already told of stays.
    """
    wanted = os.environ.get(CACHE_VARIABLE, "")
    if wanted.lower() == "off" or jax.config.jax_compilation_cache_dir is not None:
        return
    folder = wanted or os.path.join(platformdirs.user_cache_dir("bmbo"), "compiled")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return  # a home without room or rights costs compile time, nothing else
    jax.config.update("jax_compilation_cache_dir", folder)


def choose_device(device: Device, num_observations: int) -> jax.Device:
    """The device for a fit of so many observations; "auto" takes a GPU only where it is faster."""
    if device == "cpu":
        return jax.devices("cpu")[0]
    try:
        gpus = jax.devices("gpu")
    except RuntimeError:
        gpus = []
    if device == "gpu" and not gpus:
        raise RuntimeError("device='gpu' was asked for, but JAX sees none; install jax with CUDA, or use 'auto'")
    if gpus and (device == "gpu" or num_observations >= GPU_FROM_OBSERVATIONS):
        return gpus[0]
    return jax.devices("cpu")[0]


@contextmanager
def computing_on(device: Device, num_observations: int) -> Iterator[jax.Device]:
    """Runs what is inside on the chosen device."""
    chosen = choose_device(device, num_observations)
    with jax.default_device(chosen):
        yield chosen
