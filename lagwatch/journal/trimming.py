"""Applies retention: deletes polls that are shipped, covered by a checkpoint and old, and thins the rest.

These deletions do not count as dropped rows.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection

from lagwatch.journal import queries, retention, size_cap
from lagwatch.journal.durable import DurableFile

_MARK = "thinned_through"
_PAUSE_SECONDS = 0.002  # between steps, for a waiting append: Python's locks are not fair


class Trimming:
    """Trims a journal in steps that hold the lock for a limited time."""

    def __init__(
        self, file: DurableFile, partition_tables: Collection[str], *, history_ms: int, every_ms: int, wal_limit: int
    ) -> None:
        self._file = file
        self._partition_tables = partition_tables
        self._history_ms = history_ms
        self._every_ms = every_ms
        self._wal_limit = wal_limit
        self._thinning: tuple[int, retention.Thinning] | None = None

    def reconfigure(self, *, history_ms: int, every_ms: int) -> None:
        """Apply other settings. The caller holds the lock of the file."""
        self._history_ms, self._every_ms, self._thinning = history_ms, every_ms, None

    def run(self, now_ms: int) -> int:
        """Trim everything that is due. Returns the number of deleted batches."""
        before_ms = now_ms - self._history_ms
        removed = self._repeat(lambda connection: self._delete_aged(connection, before_ms))
        removed += self._repeat(self._thin)
        self._repeat(self._release_space)
        return removed

    def _repeat(self, step: Callable[[sqlite3.Connection], tuple[int, bool]]) -> int:
        removed, more = 0, True
        while more:
            with self._file.lock:
                count, more = self._file.try_write(step) or (0, False)
            removed += count
            if more:
                time.sleep(_PAUSE_SECONDS)
        return removed

    def _delete_aged(self, connection: sqlite3.Connection, before_ms: int) -> tuple[int, bool]:
        with self._file.committing(connection):
            count = retention.delete_aged(connection, self._frontier(connection), before_ms)
        return count, count > 0

    def _thin(self, connection: sqlite3.Connection) -> tuple[int, bool]:
        frontier = self._frontier(connection)
        mark = self._file.state.marks.get(_MARK, 0)
        if not self._every_ms or frontier <= mark:
            return 0, False
        if self._thinning is None or self._thinning[0] != self._file.connected:
            fresh = retention.Thinning(connection, self._partition_tables, self._every_ms, mark)
            self._thinning = (self._file.connected, fresh)
        thinning = self._thinning[1]
        with self._file.committing(connection) as state:
            removed = thinning.step(connection, frontier)
            state.set_mark(_MARK, removed.through)
        thinning.done(removed)
        return removed.batches, removed.through < frontier

    def _release_space(self, connection: sqlite3.Connection) -> tuple[int, bool]:
        more = size_cap.release_pages(connection)
        if size_cap.wal_bytes(self._file.path) > 2 * self._wal_limit:
            size_cap.truncate_log(connection)
        return 0, more

    def _frontier(self, connection: sqlite3.Connection) -> int:
        """The newest poll that neither a sink nor a restart needs.

        The oldest checkpoint counts: if the newer one is damaged, a restart needs the polls since the older. The newest
        poll is always kept, because the number of the next one is derived from it.
        """
        (covered,) = connection.execute("SELECT min(poll) FROM checkpoint").fetchone()
        shipped = (cursor.first_needed - 1 for cursor in self._file.state.cursors.values())
        return min(covered or 0, queries.newest_poll(connection) - 1, *shipped)
