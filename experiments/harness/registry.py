"""Find methods and problems by name, in this package and in the user's own modules."""

import importlib
from collections.abc import Callable, Iterable, Sequence

from experiments.harness.method_interface import MethodEntry
from experiments.methods import METHODS
from experiments.problems import PROBLEMS, Benchmark


class UnknownNameError(ValueError):
    """Say that a name is not known, and list the known names."""


def methods(plugins: Iterable[str] = ()) -> dict[str, MethodEntry]:
    """Return all methods by name. A plugin is a module whose `ENTRIES` are methods."""
    found = dict(METHODS)
    for plugin in plugins:
        found |= {entry.name: entry for entry in getattr(importlib.import_module(plugin), "ENTRIES", ())}
    return found


def problems(plugins: Iterable[str] = ()) -> dict[str, Callable[[], Benchmark]]:
    """Return all problems by name. The `PROBLEMS` of a plugin map names to functions that make a `Benchmark`."""
    found = dict(PROBLEMS)
    for plugin in plugins:
        found |= getattr(importlib.import_module(plugin), "PROBLEMS", {})
    return found


def check_names(kind: str, wanted: Sequence[str], known: Iterable[str]) -> None:
    """Raise `UnknownNameError` if a name is not known."""
    known = list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UnknownNameError(f"there is no {kind} {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
