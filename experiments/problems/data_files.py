"""Find data files in the folder that BMBO_DATA names, or download them once from their official source."""

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from experiments.problems.benchmark import DataMissingError

VARIABLE = "BMBO_DATA"

PIECE = 1 << 20
"""Bytes that are read at once from a download."""


def find(folder: str, files: Mapping[str, str], source: str) -> Path:
    """Return the folder of some files. Download those that are missing, or raise `DataMissingError`.

    Args:
        folder: the folder below BMBO_DATA, or below the user's cache if that variable is not set.
        files: the names of the files and their SHA-256 digests.
        source: the address of a file, with {file} for its name.
    """
    place = _place() / folder
    for name in [name for name in files if not _is_there(place / name, os.path.join(folder, name))]:
        with _fetched(source.format(file=name), files[name], place) as fetched:
            os.replace(fetched, place / name)
    return place


def find_converted(name: str, source: str, digest: str, convert: Callable[[Path, Path], None]) -> Path:
    """Return the path of a file that is made from an official one, or raise `DataMissingError`.

    Args:
        name: the name of the wanted file in BMBO_DATA, or in the user's cache if that variable is not set.
        source: the address of the official file.
        digest: the SHA-256 digest of the official file.
        convert: reads the official file (first path) and writes the wanted one (second path).
    """
    place = _place()
    if not _is_there(place / name, name):
        with _fetched(source, digest, place) as fetched, _partial(place) as made:
            convert(fetched, made)
            os.replace(made, place / name)
    return place / name


def _place() -> Path:
    return Path(os.environ.get(VARIABLE) or os.path.join(platformdirs.user_cache_dir("bmbo"), "data"))


def _is_there(path: Path, name: str) -> bool:
    if path.is_file():
        return True
    if os.environ.get(VARIABLE):
        raise DataMissingError(f"{VARIABLE} has no {name}; put it there, or unset {VARIABLE} to fetch it")
    return False


@contextmanager
def _partial(folder: Path) -> Generator[Path, None, None]:
    """Yield the path of a temporary file to fill and then move, so that no process sees half a file."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        path = Path(file.name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _fetched(address: str, digest: str, folder: Path) -> Generator[Path, None, None]:
    """Yield a temporary file with the checked content of an address. Raise `DataMissingError` if that fails."""
    hashed = hashlib.sha256()
    with _partial(folder) as path:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer, path.open("wb") as file:
                while piece := answer.read(PIECE):
                    hashed.update(piece)
                    file.write(piece)
        except (urllib.error.URLError, OSError) as error:
            raise DataMissingError(
                f"{address} cannot be fetched ({error}); get it yourself and set {VARIABLE} to the folder of the data"
            ) from error
        if hashed.hexdigest() != digest:
            raise DataMissingError(f"{address} is not the file that these experiments were made with; set {VARIABLE}")
        yield path
