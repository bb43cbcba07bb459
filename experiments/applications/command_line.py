"""One configuration on a command line, for the applications that train one: a positional argument a hyperparameter."""

import argparse
from collections.abc import Sequence
from typing import Any

import bmbo


def parse(
    parser: argparse.ArgumentParser, space: bmbo.Space, arguments: Sequence[str] | None
) -> tuple[dict[str, Any], argparse.Namespace]:
    """The configuration and the parser's own options; what is not in the space ends the program with a usage error."""
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
