"""Which polls of a per-partition table an hour's file keeps: of each source the first in every span of time.

The choice depends on the polls alone, not on the order they come in, so an hour that is built again is the same hour.
Rows in a file do not name their source, so the file's metadata lists the times of each source.
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
        """Whether a batch would be kept, as far as is known now. More batches can only turn that into a no."""
        return self._first.wants(source, at_ms)

    def add(self, source: str, at_ms: int) -> None:
        """A batch of this source and time is in the file."""
        self._first.add(source, at_ms)
        self._sources.setdefault(at_ms, set()).add(source)

    def add_unattributed(self, times: Iterable[int]) -> None:
        """Rows of these times are in the file, from sources nobody recorded: they are always kept."""
        self._unattributed.update(times)

    def merge(self, other: HourTimes) -> None:
        """The other's rows are in the file too."""
        for at_ms, sources in other._sources.items():
            for source in sources:
                self.add(source, at_ms)
        self._unattributed |= other._unattributed

    def dropped(self) -> npt.NDArray[np.int64]:
        """The times to drop: no source of theirs keeps them."""
        dropped = [
            at_ms
            for at_ms, sources in self._sources.items()
            if at_ms not in self._unattributed and not any(self.wants(source, at_ms) for source in sources)
        ]
        return np.array(sorted(dropped), np.int64)

    def encode(self) -> str:
        """The times that stay, by source, for the file's metadata."""
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
