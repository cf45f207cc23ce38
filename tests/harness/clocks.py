"""A settable wall clock for a real process, by Debian's libfaketime; monotonic time is unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class FakedClock:
    """The environment of a process, and control over its wall clock."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds = 0
        self.step(0)
        self.env = {
            "LD_PRELOAD": str(_LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, seconds: int) -> None:
        """Set the clock forward or back."""
        self._seconds += seconds
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{self._seconds:+d}\n")
        fresh.rename(self._file)


@contextmanager
def faked_clock(folder: Path) -> Iterator[FakedClock]:
    """A clock for the duration of a `with` block; fails without the library."""
    if not _LIBRARIES:
        pytest.fail("libfaketime is not installed. Run: apt-get install libfaketime", pytrace=False)
    yield FakedClock(folder / "faketime")
