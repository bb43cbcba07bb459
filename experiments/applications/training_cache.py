"""What trainings leave behind: states to go on from and values that are known, on disk or in memory."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

import platformdirs

VARIABLE = "BMBO_EXPERIMENTS_CACHE"
"""Names the folder; "off" keeps all in memory."""

OFF = "off"

DIGEST_BYTES = 32
"""Length of the SHA-256 that every file begins with."""


class Shelf(Protocol):
    """Bytes by name."""

    def read(self, name: str) -> bytes | None:
        """None where there is nothing, or nothing whole."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """In place of what was there."""
        ...

    def remove(self, name: str) -> None:
        """Nothing happens where there is nothing."""
        ...

    def names(self, ending: str) -> list[str]:
        """Of all that is there and ends so, sorted."""
        ...


@dataclass(frozen=True)
class MemoryShelf:
    """A shelf that ends with its process."""

    kept: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def read(self, name: str) -> bytes | None:
        """See `Shelf`."""
        return self.kept.get(name)

    def write(self, name: str, content: bytes) -> None:
        """See `Shelf`."""
        self.kept[name] = content

    def remove(self, name: str) -> None:
        """See `Shelf`."""
        self.kept.pop(name, None)

    def names(self, ending: str) -> list[str]:
        """See `Shelf`."""
        return sorted(name for name in self.kept if name.endswith(ending))


@dataclass(frozen=True)
class DiskShelf:
    """A shelf that many processes share."""

    folder: Path

    def _path(self, name: str) -> Path:
        # A folder of a hundred thousand files is slow to list.
        return self.folder / name[:2] / name

    def read(self, name: str) -> bytes | None:
        """What was written, whole; a file that was damaged counts as absent."""
        try:
            found = self._path(name).read_bytes()
        except OSError:
            return None
        digest, content = found[:DIGEST_BYTES], found[DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == digest else None

    def write(self, name: str, content: bytes) -> None:
        """Whole or not at all, also when several processes write at once."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as partial:
            partial.write(hashlib.sha256(content).digest() + content)
        os.replace(partial.name, path)

    def remove(self, name: str) -> None:
        """Nothing happens where there is nothing."""
        self._path(name).unlink(missing_ok=True)

    def names(self, ending: str) -> list[str]:
        """See `Shelf`."""
        return sorted(path.name for path in self.folder.glob(f"*/*{ending}"))


@cache
def _in_memory() -> MemoryShelf:
    return MemoryShelf()


def shelf() -> Shelf:
    """The one that the environment asks for."""
    given = os.environ.get(VARIABLE)
    if given == OFF:
        return _in_memory()
    return DiskShelf(Path(given or os.path.join(platformdirs.user_cache_dir("bmbo"), "experiments")))


@dataclass(frozen=True)
class KeptStates:
    """States of one training on a shelf; see `States`."""

    where: Shelf
    key: str

    def _name(self, level: int) -> str:
        return f"{self.key}.{level}.state"

    def load(self, below: int) -> tuple[int, bytes] | None:
        """See `States`."""
        for level in reversed(range(below)):
            state = self.where.read(self._name(level))
            if state is not None:
                return level, state
        return None

    def save(self, level: int, state: bytes) -> None:
        """See `States`."""
        self.where.write(self._name(level), state)

    def drop(self, levels: Iterable[int]) -> None:
        """Lets go of the states of some levels."""
        for level in levels:
            self.where.remove(self._name(level))


@dataclass(frozen=True)
class KeptPauses:
    """Pauses on a shelf, by the keys of the trainings; see `Pauses`."""

    where: Shelf
    keys: Sequence[str]

    def _name(self, index: int) -> str:
        return f"{self.keys[index]}.paused"

    def load(self, index: int) -> bytes | None:
        """See `Pauses`."""
        return self.where.read(self._name(index))

    def save(self, index: int, state: bytes) -> None:
        """See `Pauses`."""
        self.where.write(self._name(index), state)

    def drop(self, index: int) -> None:
        """See `Pauses`."""
        self.where.remove(self._name(index))
