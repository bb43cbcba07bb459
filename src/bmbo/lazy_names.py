"""Load the public names of a package when they are first used, and say which extra brings what is missing."""

from collections.abc import Callable
from typing import Any

import lazy_loader

NETWORKS = frozenset({"blackjax", "jax", "jaxlib", "jaxtyping", "optax"})
"""What the extra of that name brings: packages that the paper's method and the baselines need, and nothing else."""


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, made from the stub beside its `__init__.py`.

    A name whose module needs a package that is not installed raises ImportError, with what to install.
    """
    load, names, listed = lazy_loader.attach_stub(package, file)

    def load_or_say_why(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in NETWORKS:
                raise
            raise ImportError(
                f'{package}.{name} needs {missing}, which is not installed: pip install "bmbo[networks]"'
            ) from None

    return load_or_say_why, names, listed
