"""A small tmpfs, mounted for one test, that can be filled."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


class SmallDisk:
    """A mounted volume that can be filled, emptied and made read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, leave_bytes: int = 0) -> None:
        """Fill all free space except `leave_bytes`."""
        volume = os.statvfs(self.folder)
        free = volume.f_bavail * volume.f_frsize - leave_bytes
        with self._ballast.open("ab") as file:
            file.write(b"\0" * max(0, free))

    def empty(self) -> None:
        """Free the space again."""
        self._ballast.unlink(missing_ok=True)

    def read_only(self) -> None:
        """Remount read-only; the kernel refuses this while a file is open for writing."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)

    def writable(self) -> None:
        """Remount read-write."""
        subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True)


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "4m") -> Iterator[SmallDisk | None]:
    """Mount one; None where mounting is not permitted. Always unmounted at the end."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        yield None
        return
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
