"""Check what a user notes on a trial."""

import json
from typing import Any

from bmbo.ledger.attribute_keys import PREFIX
from bmbo.problem.number_checks import plain_scalar


def checked_attribute(key: object, value: object) -> Any:
    """Return a value as it is stored; raise TypeError or ValueError if it, or its key, cannot be stored."""
    if not isinstance(key, str) or not key:
        raise TypeError(f"an attribute is named by a text that is not empty, got {key!r}")
    if key.startswith(PREFIX):
        raise ValueError(f"names that begin with {PREFIX!r} belong to bmbo, got {key!r}")
    plain = plain_scalar(value)
    try:
        return json.loads(json.dumps(plain))
    except (TypeError, ValueError):
        raise TypeError(
            f"attribute {key!r} must be a number, a text, None, or a list or dict of these, got {value!r}"
        ) from None
