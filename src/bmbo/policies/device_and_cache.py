"""Choose where a policy computes, and keep its compiled programs on disk."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import platformdirs

from bmbo.history import History, Query
from bmbo.problem import Problem
from bmbo.protocols import Recommendation, Recommending, Starting

Device = Literal["auto", "cpu", "gpu"]

CACHE_VARIABLE = "BMBO_CACHE"
"""Environment variable: the folder of compiled programs, or "off" for none. Default: a folder of the user's cache."""


@dataclass(frozen=True)
class OnDevice:
    """Run another policy on a device, and keep the programs that it compiles.

    Args:
        policy: what suggests.
        device: "cpu", "gpu", or "auto" for a GPU if there is one.
    """

    policy: Recommending
    device: Device = "auto"

    def start_sizes(self, problem: Problem) -> tuple[int, ...]:
        """See `Starting`."""
        return self.policy.start_sizes(problem) if isinstance(self.policy, Starting) else ()

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """See `Policy`."""
        enable_cache()
        with computing_on(self.device):
            return self.policy.suggest(seed, history, num, carry)

    def recommendation(self, seed: int, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """See `Recommending`."""
        enable_cache()
        with computing_on(self.device):
            return self.policy.recommendation(seed, history, carry)


@runtime_checkable
class Planning(Recommending, Protocol):
    """Describe a policy that recommends, and that plans with what a run may spend."""

    def within(self, total_cost: float | None, n_trials: int | None) -> Recommending:
        """See `Budgeted`."""
        ...


@dataclass(frozen=True)
class PlanningOnDevice(OnDevice):
    """Run a policy on a device, and tell it what a run may spend."""

    policy: Planning

    def within(self, total_cost: float | None, n_trials: int | None) -> OnDevice:
        """See `Budgeted`."""
        return OnDevice(self.policy.within(total_cost, n_trials), self.device)


def enable_cache() -> None:
    """Keep compiled programs on disk, so that a second run compiles nothing, unless the user chose otherwise.

    A policy calls this before its first computation; nothing calls it on import. If JAX already has a cache, it stays.
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
    """Return where to compute; raise RuntimeError if a GPU was asked for and JAX sees none."""
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
    """Run the block on the chosen device."""
    chosen = choose_device(device)
    with jax.default_device(chosen):
        yield chosen
