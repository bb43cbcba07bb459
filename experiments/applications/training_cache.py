"""Store the states and values of trainings, on disk or in memory."""

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
"""The variable that names the folder of the store. The value "off" keeps everything in memory."""

OFF = "off"

DIGEST_BYTES = 32
"""Length of the SHA-256 digest at the beginning of every file."""


class Store(Protocol):
    """Store bytes by name."""

    def read(self, name: str) -> bytes | None:
        """Return the bytes, or None if there are none or they are damaged."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write bytes and replace what was there."""
        ...

    def remove(self, name: str) -> None:
        """Remove the bytes, if there are any."""
        ...

    def names(self, ending: str) -> list[str]:
        """Return the sorted names with this ending."""
        ...


@dataclass(frozen=True)
class MemoryStore:
    """Store bytes in memory, until the process ends."""

    kept: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def read(self, name: str) -> bytes | None:
        """Return the bytes, or None if there are none."""
        return self.kept.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Write bytes and replace what was there."""
        self.kept[name] = content

    def remove(self, name: str) -> None:
        """Remove the bytes, if there are any."""
        self.kept.pop(name, None)

    def names(self, ending: str) -> list[str]:
        """Return the sorted names with this ending."""
        return sorted(name for name in self.kept if name.endswith(ending))


@dataclass(frozen=True)
class DiskStore:
    """Store bytes in files that many processes share."""

    folder: Path

    def _path(self, name: str) -> Path:
        # Sub-folders, because a folder of a hundred thousand files is slow to list.
        return self.folder / name[:2] / name

    def read(self, name: str) -> bytes | None:
        """Return the bytes, or None if the file is missing or damaged."""
        try:
            found = self._path(name).read_bytes()
        except OSError:
            return None
        digest, content = found[:DIGEST_BYTES], found[DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == digest else None

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one step, so that several processes can write at once."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as partial:
            partial.write(hashlib.sha256(content).digest() + content)
        os.replace(partial.name, path)

    def remove(self, name: str) -> None:
        """Remove the file, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def names(self, ending: str) -> list[str]:
        """Return the sorted names with this ending."""
        return sorted(path.name for path in self.folder.glob(f"*/*{ending}"))


@cache
def _in_memory() -> MemoryStore:
    return MemoryStore()


def default_store() -> Store:
    """Return the store that the variable BMBO_EXPERIMENTS_CACHE asks for."""
    given = os.environ.get(VARIABLE)
    if given == OFF:
        return _in_memory()
    return DiskStore(Path(given or os.path.join(platformdirs.user_cache_dir("bmbo"), "experiments")))


@dataclass(frozen=True)
class StoredStates:
    """Keep the states of one training in a store; see `States`."""

    store: Store
    key: str

    def _name(self, level: int) -> str:
        return f"{self.key}.{level}.state"

    def load(self, below: int) -> tuple[int, bytes] | None:
        """Return the highest level below the given one that has a state, and the state; None if there is none."""
        for level in reversed(range(below)):
            state = self.store.read(self._name(level))
            if state is not None:
                return level, state
        return None

    def save(self, level: int, state: bytes) -> None:
        """Keep the state at the end of a level."""
        self.store.write(self._name(level), state)

    def drop(self, levels: Iterable[int]) -> None:
        """Remove the states of some levels."""
        for level in levels:
            self.store.remove(self._name(level))


@dataclass(frozen=True)
class StoredPauses:
    """Keep unfinished trainings in a store, by the keys of the trainings; see `Pauses`."""

    store: Store
    keys: Sequence[str]

    def _name(self, index: int) -> str:
        return f"{self.keys[index]}.paused"

    def load(self, index: int) -> bytes | None:
        """Return the saved state, or None if there is none."""
        return self.store.read(self._name(index))

    def save(self, index: int, state: bytes) -> None:
        """Keep the state of an unfinished training."""
        self.store.write(self._name(index), state)

    def drop(self, index: int) -> None:
        """Remove the state of a finished training."""
        self.store.remove(self._name(index))
