"""Limits the size of the journal on disk, and returns free pages to the filesystem."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from lagwatch.journal import queries, retention
from lagwatch.journal.state import JournalState

_log = logging.getLogger(__name__)

_MARK = "cap_thinned_through"
_SPANS = 10  # of the history become one
_TARGET = 0.9  # of the cap; frees enough at once to do it rarely
_VACUUM_PAGES = 4096  # 16 MiB
_FREE_PAGES_KEPT = 0.1  # the next polls reuse them
_MIN_FREE_PAGES = 256
_PAGES_AROUND_BYTES = 65_536

Committing = Callable[[sqlite3.Connection], AbstractContextManager[JournalState]]


class CapReachedError(Exception):
    """The journal has reached its cap, and nothing can be deleted now."""


class Cap:
    """Keeps used pages and write-ahead log below a number of bytes.

    Free pages are not counted: the file grows only when it has none, so it never exceeds the cap either.
    """

    def __init__(self, path: Path, cap_bytes: int, partition_tables: Collection[str], every_ms: int) -> None:
        self.every_ms = every_ms  # the span to which the history is thinned
        self._path = path
        self._cap_bytes = cap_bytes
        self._tables = partition_tables
        # One poll or checkpoint must not displace everything else.
        self.largest_bytes = cap_bytes // 8

    def make_room(self, connection: sqlite3.Connection, size: int, committing: Committing) -> None:
        """Make room for `size` bytes. Costs three pragmas and a stat if there is room already.

        Over the cap, thins the older half to ten times the span of the history. Where that does not suffice, or polls are
        further apart, drops the oldest polls except state. Where the state alone exceeds the cap, drops the oldest of it
        too: otherwise no poll could be written any more. Raises CapReachedError.
        """
        # Payloads are written to the log and then to the file, each with some overhead.
        size = 2 * size + size // 16 + _PAGES_AROUND_BYTES
        target = int(self._cap_bytes * _TARGET) - size
        if self._fits(connection, size):
            return
        free = truncate_log(connection)
        if self._fits(connection, size):
            return
        if not free and used_bytes(connection) <= target:
            raise CapReachedError(f"{self._path}: its log is at the cap because another process keeps reading the file")
        thinned = self._thin(connection, target, committing)
        dropped = self._drop(connection, target, committing, retention.newest_state)
        if not self._fits(connection, size):
            dropped += self._drop(connection, target, committing, lambda _: [])
        while release_pages(connection):
            truncate_log(connection)
        truncate_log(connection)
        if thinned or dropped:
            _log.warning(
                "journal over its cap, deleted rows path=%s cap_bytes=%d rows_thinned=%d rows_dropped=%d",
                self._path,
                self._cap_bytes,
                thinned,
                dropped,
            )
        if not self._fits(connection, size):
            raise CapReachedError(f"{self._path}: at its cap, and nothing is left to delete; raise journal.max_size")

    def _fits(self, connection: sqlite3.Connection, size: int) -> bool:
        return used_bytes(connection) + wal_bytes(self._path) + size <= self._cap_bytes

    def _thin(self, connection: sqlite3.Connection, target: int, committing: Committing) -> int:
        """Thin the older half, oldest polls first, until the target is reached. Polls are not thinned twice."""
        rows, through = 0, retention.older_half(connection)
        while self.every_ms and used_bytes(connection) > target:
            with committing(connection) as state:
                after = state.marks.get(_MARK, 0)
                if after >= through:
                    break
                thinning = retention.Thinning(connection, self._tables, _SPANS * self.every_ms, after)
                removed = thinning.step(connection, through)
                state.set_mark(_MARK, removed.through)
                state.count_dropped("thinned", removed.rows)
            truncate_log(connection)
            rows += removed.rows
        return rows

    def _drop(
        self,
        connection: sqlite3.Connection,
        target: int,
        committing: Committing,
        kept: Callable[[sqlite3.Connection], Iterable[int]],
    ) -> int:
        rows = 0
        while (excess := used_bytes(connection) - target) > 0:
            with committing(connection) as state:
                removed = retention.drop_oldest(connection, excess, kept(connection))
                state.count_dropped("dropped", removed.rows)
                state.skip_deleted(queries.oldest_poll(connection) - 1)
            truncate_log(connection)
            rows += removed.rows
            if not removed.batches:
                break
        return rows


def used_bytes(connection: sqlite3.Connection) -> int:
    """The size of the used pages in bytes."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def wal_bytes(path: Path) -> int:
    """The size of the write-ahead log in bytes."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return 0


def release_pages(connection: sqlite3.Connection) -> bool:
    """Return a limited number of free pages to the filesystem. True if there are more."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    surplus = free - int((pages - free) * _FREE_PAGES_KEPT) - _MIN_FREE_PAGES
    if surplus <= 0:
        return False
    # Not execute(): Python stops a pragma without columns after one step, which frees only one page.
    connection.executescript(f"PRAGMA incremental_vacuum({min(surplus, _VACUUM_PAGES)})")
    return bool(surplus > _VACUUM_PAGES)


def truncate_log(connection: sqlite3.Connection) -> bool:
    """Checkpoint the write-ahead log and truncate it. False if a reader still needs it."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
