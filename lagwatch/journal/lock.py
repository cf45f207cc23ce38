"""A file lock that prevents a second agent from opening the same journal."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from lagwatch.errors import JournalInUseError


class JournalLock:
    """`flock` on a file beside the journal; the kernel releases it when the process dies.

    It is a separate file because closing any descriptor of the database would drop SQLite's own locks.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._path = journal.with_name(journal.name + ".lock")
        self._fd: int | None = None

    def acquire(self) -> None:
        """Acquire the lock, unless it is held. Raises JournalInUseError, or OSError for the lock file itself."""
        if self._fd is not None:
            return
        try:
            # Read-only, so that the lock does not prevent a read-only remount of the volume.
            fd = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise JournalInUseError(
                f"{self._journal}: another lagwatch agent (pid {self._holder()}) writes this journal; "
                "stop it, or set another journal.path"
            ) from None
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        with contextlib.suppress(OSError):  # the pid is only for the error message
            self._path.write_text(f"{os.getpid()}\n")

    def release(self) -> None:
        """Release the lock. The file stays: if it were removed, two agents could lock two files of the same name."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return self._path.read_text().strip() or "unknown"
        return "unknown"
