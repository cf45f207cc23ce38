"""Thins the per-partition tables of an hour's file: keeps the first poll of each source in every span of time.

The result does not depend on the order in which polls arrive, so writing an hour again gives the same file. Rows do not
name their source, so the file's metadata lists the times of each source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from lagwatch.thinning import FirstOfSpan

SOURCES_KEY = "lagwatch.sources"  # in the file's metadata: the times of each source, as JSON


class HourTimes:
    """The times of one file, by source, and which of them are kept. A span of 0 keeps all."""

    def __init__(self, span_ms: int) -> None:
        self._first = FirstOfSpan(span_ms)
        self._sources: dict[int, set[str]] = {}
        self._unattributed: set[int] = set()

    def wants(self, source: str, at_ms: int) -> bool:
        """Whether to keep a batch, given those added so far. Later batches can only turn a yes into a no."""
        return self._first.wants(source, at_ms)

    def add(self, source: str, at_ms: int) -> None:
        """Add a batch of this source and time."""
        self._first.add(source, at_ms)
        self._sources.setdefault(at_ms, set()).add(source)

    def add_unattributed(self, times: Iterable[int]) -> None:
        """Add rows of these times without a recorded source; they are always kept."""
        self._unattributed.update(times)

    def merge(self, other: HourTimes) -> None:
        """Add the rows of another."""
        for at_ms, sources in other._sources.items():
            for source in sources:
                self.add(source, at_ms)
        self._unattributed |= other._unattributed

    def dropped(self) -> npt.NDArray[np.int64]:
        """The times to drop: those that no source keeps."""
        dropped = [
            at_ms
            for at_ms, sources in self._sources.items()
            if at_ms not in self._unattributed and not any(self.wants(source, at_ms) for source in sources)
        ]
        return np.array(sorted(dropped), np.int64)

    def encode(self) -> str:
        """The times to keep, by source, for the file's metadata."""
        dropped = set(self.dropped().tolist())
        times: dict[str, list[int]] = {}
        for at_ms in sorted(self._sources.keys() - dropped):
            for source in sorted(self._sources[at_ms]):
                times.setdefault(source, []).append(at_ms)
        return json.dumps(times)


def decode_sources(metadata: Mapping[bytes, bytes] | None) -> dict[int, list[str]]:
    """The sources of each time in a file; empty for a file that does not list them."""
    sources: dict[int, list[str]] = {}
    for source, times in json.loads((metadata or {}).get(SOURCES_KEY.encode(), b"{}")).items():
        for at_ms in times:
            sources.setdefault(at_ms, []).append(source)
    return sources
