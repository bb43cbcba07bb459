"""Read one configuration from the command line, with one positional argument for each hyperparameter."""

import argparse
from collections.abc import Sequence
from typing import Any

import bmbo


def parse_config(
    parser: argparse.ArgumentParser, space: bmbo.Space, arguments: Sequence[str] | None
) -> tuple[dict[str, Any], argparse.Namespace]:
    """Return the configuration and the parser's own options. Exit with a usage error if a value is not in the space."""
    for name, param in space.params:
        kind = str if isinstance(param, bmbo.Categorical) else int if isinstance(param, bmbo.Int) else float
        parser.add_argument(name, type=kind)
    options = parser.parse_args(arguments)
    config = {name: getattr(options, name) for name in space.names}
    try:
        space.encode(config)
    except ValueError as error:
        parser.error(str(error))
    return config, options
