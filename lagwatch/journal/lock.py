"""The lock that keeps a second agent off the same journal."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from lagwatch.errors import JournalInUseError


class JournalLock:
    """`flock` on a file beside the journal: the kernel lets go of it when the process dies, however it dies.

    A file of its own, since closing any descriptor of the database itself would drop the locks SQLite holds on it.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._path = journal.with_name(journal.name + ".lock")
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock, or keep it. Raises JournalInUseError, or OSError when the lock file cannot be made."""
        if self._fd is not None:
            return
        try:
            # Read-only, so that the lock alone never keeps a volume from being remounted read-only.
            fd = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise JournalInUseError(
                f"{self._journal}: another lagwatch agent (pid {self._holder()}) writes this journal; "
                "stop it, or give this one another journal.path"
            ) from None
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        with contextlib.suppress(OSError):  # a full disk must not cost the lock: the pid is for the message only
            self._path.write_text(f"{os.getpid()}\n")

    def release(self) -> None:
        """Let go. The file stays: removing it would let two agents lock two files of one name."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return self._path.read_text().strip() or "unknown"
        return "unknown"
