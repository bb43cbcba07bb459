"""A small disk that a test can fill to the last byte: a fixture."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

MEGABYTES = 4


class SmallDisk:
    """A folder on a disk of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, free: int = 0) -> None:
        """Leave so many bytes free, in whole pages."""
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            file.write(bytes(shutil.disk_usage(self.folder).free - free))
            while not free:
                file.write(bytes(1))

    def fill_with_files(self) -> None:
        """Leave no file to be made, though there are free bytes."""
        self._ballast.mkdir()
        with contextlib.suppress(OSError):
            for number in range(os.statvfs(self.folder).f_files):
                (self._ballast / str(number)).touch()

    def make_room(self) -> None:
        """Take the ballast away."""
        if self._ballast.is_dir():
            shutil.rmtree(self._ballast)
        else:
            self._ballast.unlink()


@contextlib.contextmanager
def mounted(folder, megabytes=MEGABYTES, files=64):
    """A disk of a few megabytes and few files in a folder, or a skipped test where that is not permitted."""
    options = f"size={megabytes}m,nr_inodes={files}"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    done = shutil.which("mount") and subprocess.run(command, capture_output=True, check=False)
    if not done or done.returncode:
        pytest.skip("to mount a small disk is not permitted here")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: a storage of the test may still be open.
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a few megabytes and few files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with mounted(folder) as disk:
        yield disk
