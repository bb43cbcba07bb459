"""TOML with the line of each value, so that whatever is wrong in a file is shown where it stands."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

Place = tuple[str | int, ...]
"""The way to a value: names of tables and keys, and the number of an entry in a list of tables."""
Kinds = tuple[type, ...]

_WORDS: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class TomlError(ValueError):
    """What is wrong in a file, and where."""


class TomlSource:
    """A TOML text, its values, and the line of each."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        lines = text.splitlines()
        try:
            self.values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self._syntax(lines, str(error)) from None
        self._lines = _line_numbers(lines)

    def _syntax(self, lines: list[str], message: str) -> TomlError:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", message)
        if found is None:
            return TomlError(f"{self.path} is not TOML: {message}")
        number = int(found[2] or len(lines))
        written = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return TomlError(f"{self.path}, line {number}: {found[1]}: {written}")

    def error(self, place: Place, message: str) -> TomlError:
        """What is wrong with the value at a place; of a place that is not written, with what encloses it."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._lines:
                return TomlError(f"{self.path}, line {self._lines[place[:end]]}: {message}")
        return TomlError(f"{self.path}: {message}")

    def table(
        self, place: Place, values: object, fields: Mapping[str, Kinds], required: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """A table whose fields are all known, all there and all of the right kind."""
        title = shown(place)
        if not isinstance(values, dict):
            raise self.error(place, f"{title} must be a table, got {values!r}")
        table = cast(dict[str, Any], values)
        for name, value in table.items():
            if name not in fields:
                raise self.error((*place, name), f"unknown field {name!r} in {title}{nearest(name, fields)}")
            if not _is_a(value, fields[name]):
                kinds = " or ".join(
                    _WORDS[kind] for kind in fields[name] if kind is not int or float not in fields[name]
                )
                raise self.error((*place, name), f"{name} in {title} must be {kinds}, got {value!r}")
        for name in required:
            if name not in table:
                raise self.error(place, f"{title} needs {name}")
        return table

    def build(self, place: Place, make: Callable[..., Any], **fields: Any) -> Any:
        """What `make` makes of fields; its own complaint at the line of the first field that it mentions."""
        try:
            return make(**fields)
        except (TypeError, ValueError) as error:
            words = re.findall(r"\w+", str(error))
            at = next(((*place, word) for word in words if (*place, word) in self._lines), place)
            raise self.error(at, f"{shown(place)}: {error}") from None


def _is_a(value: object, kinds: Kinds) -> bool:
    # In Python true is a whole number; in TOML it is not.
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)


def nearest(name: str, known: Iterable[str]) -> str:
    """What was probably meant, as the end of a sentence."""
    known = list(known)
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"


def shown(place: Place) -> str:
    """A table as it is written in the file."""
    names, last = ".".join(map(str, place[:-1])), place[-1]
    return f"[[{names}]] number {last + 1}" if isinstance(last, int) else f"[{'.'.join(map(str, place))}]"


def _line_numbers(lines: list[str]) -> dict[Place, int]:
    """The line of each table and key; of several values on a line, that of the first."""
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
    """The names in a dotted key, as TOML itself reads it."""
    try:
        value: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        # A line of a longer string that only looks like a key.
        return (text,)
    names: list[str] = []
    while isinstance(value, dict):
        name, value = next(iter(cast(dict[str, Any], value).items()))
        names.append(name)
    return tuple(names)
