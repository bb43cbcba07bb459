"""Write numbers, lengths of time and configurations as short text for people."""

from collections.abc import Mapping
from typing import Any


def short_text(value: object) -> str:
    """Return a value as short text: "-" for None, six digits for a real number."""
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def params_line(params: Mapping[str, Any]) -> str:
    """Return a configuration as one line of text."""
    return ", ".join(f"{name}={short_text(value)}" for name, value in params.items())


def duration(seconds: float) -> str:
    """Return a length of time in at most two units: 3.1 s, 4 min 10 s, 2 h 5 min."""
    whole = round(seconds)
    for size, unit, smaller, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {part}"
    return f"{max(seconds, 0.0):.1f} s"
