"""Collect every method by its name. Each module of this package lists its methods in `ENTRIES`."""

import importlib
import pkgutil

from experiments.harness.method_interface import MethodEntry


def _collected() -> dict[str, MethodEntry]:
    found: dict[str, MethodEntry] = {}
    # Our own methods come first. Importing a module is cheap: it imports its peer inside a factory only.
    modules = sorted(
        (module.name for module in pkgutil.iter_modules(__path__)), key=lambda name: (name != "own_methods", name)
    )
    for module in modules:
        for entry in getattr(importlib.import_module(f"{__name__}.{module}"), "ENTRIES", ()):
            if entry.name in found:
                raise ValueError(f"two methods are called {entry.name!r}; rename the one in {module}.py")
            found[entry.name] = entry
    return found


METHODS: dict[str, MethodEntry] = _collected()
