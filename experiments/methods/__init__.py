"""Every method by its name: modules of this package list theirs as `ENTRIES`, a sequence of `MethodEntry`."""

import importlib
import pkgutil

from experiments.harness.contract import MethodEntry


def _collected() -> dict[str, MethodEntry]:
    found: dict[str, MethodEntry] = {}
    # Ours first; modules are light, for they import their peer only inside a factory.
    modules = sorted(
        (module.name for module in pkgutil.iter_modules(__path__)), key=lambda name: (name != "native", name)
    )
    for module in modules:
        for entry in getattr(importlib.import_module(f"{__name__}.{module}"), "ENTRIES", ()):
            if entry.name in found:
                raise ValueError(f"two methods are called {entry.name!r}; rename the one in {module}.py")
            found[entry.name] = entry
    return found


METHODS: dict[str, MethodEntry] = _collected()
