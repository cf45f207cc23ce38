"""Thins a series of polls: keeps the first poll of each time span, per key.

The journal, the Parquet archive and InfluxDB all thin with it, by table, cluster and source: what one job writes never
displaces what another job writes to the same table. At its cap the journal thins with a longer span.
"""

from __future__ import annotations

from collections.abc import Hashable


class FirstOfSpan:
    """The first time of each span, by key. A span of 0 ms keeps everything.

    A poll earlier than the first one so far is kept too, so arrival order never loses the first poll of a span.
    `most_spans` limits the spans remembered per key; the one added first is dropped first.
    """

    def __init__(self, span_ms: int, most_spans: int | None = None) -> None:
        self.span_ms = span_ms
        self._most_spans = most_spans
        self._first: dict[Hashable, dict[int, int]] = {}

    def wants(self, key: Hashable, at_ms: int) -> bool:
        """Whether a poll of this time is kept, as far as the polls added so far decide it."""
        return not self.span_ms or at_ms <= self._first.get(key, {}).get(at_ms // self.span_ms, at_ms)

    def add(self, key: Hashable, at_ms: int) -> None:
        """Take a poll into account."""
        if not self.span_ms:
            return
        first, span = self._first.setdefault(key, {}), at_ms // self.span_ms
        first[span] = min(at_ms, first.get(span, at_ms))
        if self._most_spans is not None and len(first) > self._most_spans:
            del first[next(iter(first))]

    def keeps(self, key: Hashable, at_ms: int) -> bool:
        """`wants`, then `add` if so."""
        if not self.wants(key, at_ms):
            return False
        self.add(key, at_ms)
        return True

    def copy(self) -> FirstOfSpan:
        """An independent copy."""
        twin = FirstOfSpan(self.span_ms, self._most_spans)
        twin._first = {key: dict(first) for key, first in self._first.items()}
        return twin
