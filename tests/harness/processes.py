"""Checks of processes that a test did not start itself."""

from __future__ import annotations

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended; a zombie has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
