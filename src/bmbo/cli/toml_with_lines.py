"""Read TOML and remember the line of each value, so that every error can name the line."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

Place = tuple[str | int, ...]
"""The path to a value: names of tables and keys, and the index of an entry in a list of tables."""

Kinds = tuple[type, ...]
"""The Python types that a value may have."""

_KIND_NAMES: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class TomlError(ValueError):
    """Report what is wrong in a file, and in which line."""


class TomlSource:
    """Hold the values of a TOML text and the line of each; raise TomlError if the text is not TOML."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        lines = text.splitlines()
        try:
            self.values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self._syntax_error(lines, str(error)) from None
        except (RecursionError, ValueError) as error:
            # Tables that are nested too deeply, and whole numbers of thousands of digits.
            raise TomlError(f"{path} cannot be read: {error}") from None
        self._lines = _line_numbers(lines)

    def _syntax_error(self, lines: list[str], message: str) -> TomlError:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", message)
        if found is None:
            return TomlError(f"{self.path} is not TOML: {message}")
        number = int(found[2] or len(lines))
        written = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return TomlError(f"{self.path}, line {number}: {found[1]}: {written}")

    def error(self, place: Place, message: str) -> TomlError:
        """Return an error about the value at a place; if the file has no such value, it names the line of its table."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._lines:
                return TomlError(f"{self.path}, line {self._lines[place[:end]]}: {message}")
        return TomlError(f"{self.path}: {message}")

    def table(
        self, place: Place, values: object, fields: Mapping[str, Kinds], required: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return a table after checking its fields.

        Args:
            place: where the table stands, for messages.
            values: what the file has there.
            fields: the fields that are known, and the types that each may have.
            required: the fields that must be there.

        Raises:
            TomlError: It is not a table, or a field is unknown, missing or of a wrong type.
        """
        title = table_title(place)
        if not isinstance(values, dict):
            raise self.error(place, f"{title} must be a table, got {values!r}")
        table = cast(dict[str, Any], values)
        for name, value in table.items():
            if name not in fields:
                raise self.error((*place, name), f"unknown field {name!r} in {title}{suggestion(name, fields)}")
            if not _is_a(value, fields[name]):
                kinds = " or ".join(
                    _KIND_NAMES[kind] for kind in fields[name] if kind is not int or float not in fields[name]
                )
                raise self.error((*place, name), f"{name} in {title} must be {kinds}, got {value!r}")
        for name in required:
            if name not in table:
                raise self.error(place, f"{title} needs {name}")
        return table

    def build(self, place: Place, make: Callable[..., Any], **fields: Any) -> Any:
        """Return `make(**fields)`; turn its TypeError or ValueError into a TomlError.

        The error names the line of the first field that the message mentions.
        """
        try:
            return make(**fields)
        except (TypeError, ValueError) as error:
            words = re.findall(r"\w+", str(error))
            at = next(((*place, word) for word in words if (*place, word) in self._lines), place)
            raise self.error(at, f"{table_title(place)}: {error}") from None


def _is_a(value: object, kinds: Kinds) -> bool:
    # True is a whole number in Python, but not in TOML.
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message that says which known name was probably meant, or lists all of them."""
    known = list(known)
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"


def table_title(place: Place) -> str:
    """Return the title of a table as it is written in the file."""
    names, last = ".".join(map(str, place[:-1])), place[-1]
    return f"[[{names}]] number {last + 1}" if isinstance(last, int) else f"[{'.'.join(map(str, place))}]"


def _line_numbers(lines: list[str]) -> dict[Place, int]:
    """Return the line number of each table and key; for a place that appears twice, the first."""
    found: dict[Place, int] = {}
    table: Place = ()
    counts: dict[Place, int] = {}
    for number, line in enumerate(lines, start=1):
        header = re.match(r"\s*(\[\[?)(.+?)\]\]?\s*(#.*)?$", line)
        key = re.match(r"\s*([^=#\[\]]+?)\s*=", line)
        if header:
            table = _dotted(header[2])
            if header[1] == "[[":
                found.setdefault(table, number)
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found.setdefault(table, number)
        elif key:
            place = (*table, *_dotted(key[1]))
            for end in range(len(table) + 1, len(place) + 1):
                found.setdefault(place[:end], number)
    return found


def _dotted(text: str) -> Place:
    """Return the names in a dotted key, split by the rules of TOML."""
    try:
        value: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        # The line belongs to a longer string and only looks like a key.
        return (text,)
    names: list[str] = []
    while isinstance(value, dict):
        name, value = next(iter(cast(dict[str, Any], value).items()))
        names.append(name)
    return tuple(names)
