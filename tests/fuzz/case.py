"""Hold one case of bad input, run it through the command line, and say what went wrong."""

import contextlib
import hashlib
import io
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bmbo.cli import main

LONGEST = 1000
"""A sentence of more characters is none."""

UNCLEAR = re.compile(
    r"Traceback|--traceback shows where|object has no attribute|index out of range|is not subscriptable"
)


@dataclass(frozen=True)
class Case:
    """Hold what is in the folder and what is typed there; every case is wrong in at least one respect.

    Attributes:
        kind: what is wrong, in two words.
        words: the command line.
        files: the content of files, by their names.
        changes: statements that change the database `study.db` before the command runs, with their values.
    """

    kind: str
    words: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    changes: tuple[tuple[str, tuple[object, ...]], ...] = ()


def fault(case: Case) -> str | None:
    """Run a case and return what is wrong with the answer, or None if it is as it must be."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        for file, content in case.files.items():
            (folder / file).write_bytes(content)
        if case.changes:
            with closing(sqlite3.connect("study.db")) as connection, connection:
                for statement, values in case.changes:
                    connection.execute(statement, values)
        before, places = contents(folder), list(sys.path)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(case.words)
            # Whatever escapes is a finding.
            except BaseException as error:
                return f"{type(error).__name__} escaped: {error}"
            finally:
                # Commands look for objectives in the working directory first.
                sys.path[:] = places
        if code == 0:
            return "the exit code is 0"
        if contents(folder) != before:
            return f"something was written: {sorted(set(contents(folder).items()) ^ set(before.items()))}"
        return unclear(err.getvalue())


def unclear(said: str) -> str | None:
    """Return what is wrong with the message of a command, or None."""
    lines = [line for line in said.splitlines() if not re.match(r"[\d-]{10} [\d:]{8} bmbo: ", line)]
    if len(lines) != 1 or not lines[0].startswith("bmbo: ") or len(lines[0]) > LONGEST:
        return f"not one sentence: {said!r}"
    sentence = lines[0].removeprefix("bmbo: ")
    if UNCLEAR.search(sentence) or not sentence.isprintable() or not re.search(r"\w \w", sentence):
        return f"not clear: {said!r}"
    return None


def contents(folder: Path) -> dict[str, str]:
    """Return what every file of a folder holds, shortened; of a database, its rows."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        # The log of a database, its index and compiled modules say nothing new.
        if path.is_dir() or path.name.endswith(("-wal", "-shm", ".pyc")):
            continue
        content = path.read_bytes()
        if content.startswith(b"SQLite format 3"):
            content = _rows(path) or content
        found[os.fspath(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


def _rows(path: Path) -> bytes | None:
    """Return all rows of a database, or None if it cannot be read."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            return "\n".join(connection.iterdump()).encode(errors="replace")
    except (sqlite3.DatabaseError, UnicodeError):
        return None
