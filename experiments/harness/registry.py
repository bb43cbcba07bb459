"""Methods and problems by name: those of this package and those of a user's own modules."""

import importlib
from collections.abc import Callable, Iterable, Sequence

from experiments.harness.contract import MethodEntry
from experiments.methods import METHODS
from experiments.problems import PROBLEMS, Benchmark


class UnknownNameError(ValueError):
    """A name that is in no list; its text has those that are."""


def methods(plugins: Iterable[str] = ()) -> dict[str, MethodEntry]:
    """All methods; a plugin is an importable module whose `ENTRIES` are methods."""
    found = dict(METHODS)
    for plugin in plugins:
        found |= {entry.name: entry for entry in getattr(importlib.import_module(plugin), "ENTRIES", ())}
    return found


def problems(plugins: Iterable[str] = ()) -> dict[str, Callable[[], Benchmark]]:
    """All problems; a plugin's `PROBLEMS` map names to functions that make a `Benchmark`."""
    found = dict(PROBLEMS)
    for plugin in plugins:
        found |= getattr(importlib.import_module(plugin), "PROBLEMS", {})
    return found


def check_names(kind: str, wanted: Sequence[str], known: Iterable[str]) -> None:
    """Refuses names that are not known."""
    known = list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UnknownNameError(f"there is no {kind} {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
