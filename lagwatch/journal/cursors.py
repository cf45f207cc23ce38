"""The position of a sink in the journal: a live position, and ranges of polls to backfill.

Pure values; the writer stores them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Cursor:
    """The sink has shipped every poll up to and including `live`, except the ranges in `backfill` (oldest first)."""

    live: int
    backfill: tuple[tuple[int, int], ...] = ()

    @property
    def first_needed(self) -> int:
        """The oldest poll the sink has not shipped; it may not be written yet."""
        return self.backfill[0][0] if self.backfill else self.live + 1

    def advanced(self, poll: int) -> Cursor:
        """The cursor after shipping up to `poll`. The live position never goes back."""
        return replace(self, live=max(self.live, poll))

    def jumped(self, poll: int) -> Cursor:
        """The cursor with the live position at `poll`; the polls between, `poll` included, become backfill."""
        if poll <= self.live:
            return self
        first, ranges = self.live + 1, self.backfill
        if ranges and ranges[-1][1] == self.live:  # a sink that flaps gets one range, not hundreds
            first, ranges = ranges[-1][0], ranges[:-1]
        return Cursor(poll, (*ranges, (first, poll)))

    def backfilled(self, poll: int) -> Cursor:
        """The cursor after the backfill up to and including `poll` was shipped."""
        return replace(self, backfill=_after(self.backfill, poll))

    def without(self, poll: int) -> Cursor:
        """The cursor after the polls up to and including `poll` were deleted and can no longer be shipped."""
        return Cursor(max(self.live, poll), _after(self.backfill, poll))

    def dumps(self) -> str:
        """Serialize."""
        return json.dumps([self.live, self.backfill])


def load_cursor(text: str) -> Cursor:
    """The inverse of `Cursor.dumps`."""
    live, backfill = json.loads(text)
    return Cursor(live, tuple((first, last) for first, last in backfill))


def _after(ranges: tuple[tuple[int, int], ...], poll: int) -> tuple[tuple[int, int], ...]:
    return tuple((max(first, poll + 1), last) for first, last in ranges if last > poll)
