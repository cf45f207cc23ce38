"""What the journal forgets, and when: ordinary retention, and the hard cap on bytes.

Functions over an open connection; each deletes a bounded amount, so that neither the lock nor the write-ahead log grows
with what there is to delete. The caller repeats them, and commits what they return to its counts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lagwatch.thinning import FirstOfSpan

_CHUNK_BATCHES = 4_000
_CHUNK_BYTES = 32 * 2**20
_KEEP_EVERY = 10
KEPT_NEWEST = 2  # polls the cap never takes, however small it is


@dataclass(frozen=True, slots=True)
class Removed:
    """What one step removed: journal rows, rows inside them, the bytes of their payloads, the last poll looked at."""

    batches: int
    rows: int
    bytes: int
    through: int


def delete_aged(connection: sqlite3.Connection, frontier: int, before_ms: int) -> int:
    """Delete batches older than the history that nobody needs. Returns how many; 0 when there are none left.

    Each batch goes by its own time: a wall clock that was wrong for a while then costs only the polls of that while.
    """
    rows = connection.execute(
        "SELECT seq, poll, row_count, bytes FROM batch WHERE at_ms < ? AND poll <= ? ORDER BY at_ms LIMIT ?",
        (before_ms, frontier, _CHUNK_BATCHES),
    ).fetchall()
    return _delete(connection, _prefix(rows, _CHUNK_BYTES)).batches


class Thinning:
    """Keeps one poll of each table, cluster and source in each stretch of `every_ms`.

    Walks on from where it stopped, so each batch is looked at once. The newest of each always stays.
    """

    def __init__(self, connection: sqlite3.Connection, tables: Collection[str], every_ms: int, through: int) -> None:
        self.through = through
        self._tables = sorted(tables)
        self._in = ", ".join("?" * len(self._tables))
        rows = connection.execute(
            f"SELECT table_name, cluster, source, at_ms FROM batch WHERE poll <= ? AND table_name IN ({self._in}) "  # noqa: S608
            "ORDER BY poll DESC LIMIT ?",
            (through, *self._tables, _CHUNK_BATCHES),
        ).fetchall()
        # Only the newest stretch of each counts: after a wall clock was set back, polls are kept too.
        self._kept = FirstOfSpan(every_ms, most_spans=1)
        for *key, at_ms in reversed(rows):
            self._kept.add(tuple(key), at_ms)

    def step(self, connection: sqlite3.Connection, frontier: int) -> Removed:
        """Thin the next polls up to and including `frontier`. Takes effect on `self` only by `done`."""
        rows = connection.execute(
            "SELECT poll, table_name, cluster, source, at_ms, seq, row_count, bytes FROM batch "  # noqa: S608
            f"WHERE poll > ? AND poll <= ? AND table_name IN ({self._in}) ORDER BY poll LIMIT ?",
            (self.through, frontier, *self._tables, _CHUNK_BATCHES),
        ).fetchall()
        through = frontier
        if len(rows) == _CHUNK_BATCHES:
            through = rows[-1][0] - 1  # its last poll may go on in the next chunk
            rows = [row for row in rows if row[0] <= through]
        newest = {(table, cluster, source): poll for poll, table, cluster, source, *_ in rows}
        for key in [key for key in newest if _is_after(connection, key, through)]:
            del newest[key]
        self._next = self._kept.copy()
        surplus = []
        for poll, table, cluster, source, at_ms, seq, row_count, size in rows:
            key = (table, cluster, source)
            if newest.get(key) == poll:
                self._next.add(key, at_ms)
            elif not self._next.keeps(key, at_ms):
                surplus.append((seq, poll, row_count, size))
        removed = _delete(connection, surplus)
        return Removed(removed.batches, removed.rows, removed.bytes, through)

    def done(self, removed: Removed) -> None:
        """The step was committed."""
        self._kept = self._next
        self.through = removed.through


def _is_after(connection: sqlite3.Connection, key: tuple[str, str, str], poll: int) -> bool:
    """Whether a later poll holds a batch of this table, cluster and source."""
    found = connection.execute(
        "SELECT 1 FROM batch WHERE table_name = ? AND cluster = ? AND source = ? AND poll > ? LIMIT 1", (*key, poll)
    )
    return found.fetchone() is not None


def thin_oldest_half(connection: sqlite3.Connection, tables: Collection[str], after: int) -> Removed:
    """Over the cap: keep every 10th batch of each per-partition table, cluster and source in the older half of the polls.

    `after` is where an earlier call stopped: what was thinned once is not thinned again.
    """
    names = sorted(tables)
    (polls,) = connection.execute("SELECT count(DISTINCT poll) FROM batch").fetchone()
    middle = connection.execute(
        "SELECT DISTINCT poll FROM batch ORDER BY poll LIMIT 1 OFFSET ?", (polls // 2,)
    ).fetchone()
    if middle is None or middle[0] - 1 <= after:
        return Removed(0, 0, 0, after)
    through = middle[0] - 1
    rows = connection.execute(
        "SELECT seq, poll, row_count, bytes, table_name, cluster, source FROM batch "  # noqa: S608
        f"WHERE poll > ? AND poll <= ? AND table_name IN ({', '.join('?' * len(names))}) ORDER BY poll",
        (after, through, *names),
    ).fetchall()
    # Counted for each of them: poll numbers run over all clusters and jobs, and every 10th could be one job's.
    seen: dict[tuple[str, ...], int] = {}
    surplus = []
    for seq, poll, row_count, size, *key in rows:
        place = seen.get(tuple(key), 0)
        seen[tuple(key)] = place + 1
        if place % _KEEP_EVERY:
            surplus.append((seq, poll, row_count, size))
    removed = _delete(connection, surplus)
    return Removed(removed.batches, removed.rows, removed.bytes, through)


def drop_oldest(connection: sqlite3.Connection, size: int) -> Removed:
    """Over the cap: delete the oldest polls, whole, of `size` bytes or a little more, but never the newest ones."""
    newest = connection.execute("SELECT DISTINCT poll FROM batch ORDER BY poll DESC LIMIT ?", (KEPT_NEWEST,)).fetchall()
    if not newest:
        return Removed(0, 0, 0, 0)
    rows = connection.execute(
        "SELECT seq, poll, row_count, bytes FROM batch WHERE poll < ? ORDER BY poll LIMIT ?",
        (newest[-1][0], _CHUNK_BATCHES),
    ).fetchall()
    chosen = _prefix(rows, min(size, _CHUNK_BYTES))
    if not chosen:
        return Removed(0, 0, 0, 0)
    through = chosen[-1][1]
    rest = connection.execute("SELECT seq, poll, row_count, bytes FROM batch WHERE poll = ?", (through,)).fetchall()
    return _delete(connection, {row[0]: row for row in (*chosen, *rest)}.values())


def _prefix(rows: list[tuple[int, int, int, int]], size: int) -> list[tuple[int, int, int, int]]:
    """The first rows of `size` bytes or a little more."""
    chosen: list[tuple[int, int, int, int]] = []
    for row in rows:
        if size <= 0:
            break
        chosen.append(row)
        size -= row[3]
    return chosen


def _delete(connection: sqlite3.Connection, rows: Iterable[tuple[int, int, int, int]]) -> Removed:
    rows = list(rows)
    connection.executemany("DELETE FROM batch WHERE seq = ?", ((row[0],) for row in rows))
    through = max((row[1] for row in rows), default=0)
    return Removed(len(rows), sum(row[2] for row in rows), sum(row[3] for row in rows), through)
