"""Find the function that a user names as an objective."""

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from bmbo.cli.study_file import FUNCTION
from bmbo.cli.toml_with_lines import suggestion


class ObjectiveError(ValueError):
    """Report that a name does not lead to a function."""


def load_function(name: str) -> Callable[[Any], Any]:
    """Return the function that `module:function` names; modules of the working directory come first.

    Raises:
        ObjectiveError: There is no such module or function, or the module cannot be imported.
    """
    if not FUNCTION.fullmatch(name):
        raise ObjectiveError(f"an objective is named as module:function, got {name!r}")
    module_name, _, path = name.partition(":")
    # The whole path, not "", because other processes receive it and may run in another folder.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    found: Any = _module(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            public = [other for other in dir(found) if not other.startswith("_")]
            raise ObjectiveError(f"module {module_name!r} has no {part!r}{suggestion(part, public)}")
        found = getattr(found, part)
    if not callable(found):
        raise ObjectiveError(f"{name} is not a function, but {found!r}")
    return found


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The missing module may also be one that the named module imports.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ObjectiveError(
                f"module {name!r} was not found in the working directory or among installed packages"
            ) from None
        raise ObjectiveError(f"module {name!r} could not be imported: {error}") from error
    # Exceptions of every kind, because importing a module runs its code.
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        raise ObjectiveError(
            f"module {name!r} could not be imported: {type(error).__name__}: {error} ({line.filename}:{line.lineno})"
        ) from error
