"""Where data lie: in the folder that BMBO_DATA names, or fetched from their official source once."""

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from experiments.problems.benchmark import DataMissingError

VARIABLE = "BMBO_DATA"


def find(folder: str, files: Mapping[str, str], source: str) -> Path:
    """The place of some files.

    Args:
        folder: below BMBO_DATA, or else below the user's cache.
        files: their names and their SHA-256.
        source: the address that they are fetched from, with {file} for the name.
    """
    given = os.environ.get(VARIABLE)
    place = Path(given or os.path.join(platformdirs.user_cache_dir("bmbo"), "data")) / folder
    missing = [name for name in files if not (place / name).is_file()]
    if missing and given:
        raise DataMissingError(
            f"{VARIABLE} has no {folder}/{missing[0]}; put it there, or unset {VARIABLE} to fetch it"
        )
    for name in missing:
        _fetch(source.format(file=name), place / name, files[name])
    return place


def _fetch(address: str, path: Path, digest: str) -> None:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            content = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise DataMissingError(
            f"{address} cannot be fetched ({error}); get it yourself and set {VARIABLE} to the folder of the data"
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataMissingError(f"{address} is not the file that these experiments were made with; set {VARIABLE}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all, also when several processes fetch at once.
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as partial:
        partial.write(content)
    os.replace(partial.name, path)
