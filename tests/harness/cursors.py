"""Which polls a cursor has yet to ship."""

from __future__ import annotations

from lagwatch.journal import Cursor


def needs(cursor: Cursor, poll: int) -> bool:
    """Whether the sink has yet to ship this poll."""
    return poll > cursor.live or any(first <= poll <= last for first, last in cursor.backfill)
