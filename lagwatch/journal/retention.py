"""Deletes old rows of the journal: for retention, and to stay below the cap on bytes.

Each function deletes a limited amount over an open connection, so that the lock is held briefly and the write-ahead log
stays small. The caller repeats the calls and adds the results to its counts.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from lagwatch.batch import Batch, is_retired
from lagwatch.catalogue import LOGS, SOURCE
from lagwatch.journal import queries
from lagwatch.journal.rows import COLUMNS, decode_batch
from lagwatch.thinning import FirstOfSpan

_CHUNK_BATCHES = 4_000
_CHUNK_BYTES = 32 * 2**20
_NO_LIMIT = 2**63 - 1
_NOT_IN = "seq NOT IN (SELECT value FROM json_each(?))"
KEPT_NEWEST = 2  # polls that are never dropped, however small the cap is


@dataclass(frozen=True, slots=True)
class Deletion:
    """What one step deleted: batches, their rows, and the bytes of their payloads; and the last poll it examined."""

    batches: int
    rows: int
    bytes: int
    through: int


def delete_aged(connection: sqlite3.Connection, frontier: int, before_ms: int) -> int:
    """Delete batches up to `frontier` that are older than the history, but no state. Returns how many; 0 when none is left.

    Each batch is deleted by its own time, so a wall clock that was wrong for a while costs only the polls of that time.
    """
    rows = connection.execute(
        "SELECT seq, poll, row_count, bytes FROM batch WHERE at_ms < ? AND poll <= ? "  # noqa: S608 - constants
        f"AND {_NOT_IN} ORDER BY at_ms LIMIT ?",
        (before_ms, frontier, json.dumps(newest_state(connection, before_ms)), _CHUNK_BATCHES),
    ).fetchall()
    return _delete(connection, _prefix(rows, _CHUNK_BYTES)).batches


def newest_state(connection: sqlite3.Connection, before_ms: int = _NO_LIMIT) -> list[int]:
    """The `seq` of each batch before a time that is state: the newest of its table, cluster and source, but of no log.

    An empty one, or the last of a retired source, is kept only while there are older ones: readers would take those for
    the newest.
    """
    rows = connection.execute(
        "SELECT seq, poll, table_name, cluster, source, row_count FROM batch "  # noqa: S608 - constants
        f"WHERE seq IN ({queries.NEWEST}) AND at_ms < :before_ms "
        "AND table_name NOT IN (SELECT value FROM json_each(:logs))",
        {**queries.OF_ALL, "before_ms": before_ms, "logs": json.dumps(sorted(LOGS))},
    ).fetchall()
    return [
        seq
        for seq, poll, table, cluster, source, row_count in rows
        if (row_count and not (table == SOURCE.name and _is_retired(connection, seq)))
        or _has_batch(connection, (table, cluster, source), "<", poll)
    ]


def _is_retired(connection: sqlite3.Connection, seq: int) -> bool:
    """Whether a batch of `source` has the last rows of a retired source."""
    row = connection.execute(f"SELECT {COLUMNS} FROM batch WHERE seq = ?", (seq,)).fetchone()  # noqa: S608 - constants
    batch = decode_batch(row)
    return isinstance(batch, Batch) and is_retired(batch)


def _has_batch(connection: sqlite3.Connection, key: tuple[str, str, str], sign: Literal["<", ">"], poll: int) -> bool:
    """Whether an earlier or later poll has a batch of this table, cluster and source."""
    found = connection.execute(
        "SELECT 1 FROM batch WHERE table_name = ? AND cluster = ? AND source = ? "  # noqa: S608 - constants
        f"AND poll {sign} ? LIMIT 1",
        (*key, poll),
    )
    return found.fetchone() is not None


class Thinning:
    """Keeps one poll of each table, cluster and source per `every_ms`.

    Continues where it stopped, so each batch is examined once. The newest batch of each is always kept.
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
        # Remembers only the newest span of each, so that polls are also kept after the wall clock was set back.
        self._kept = FirstOfSpan(every_ms, most_spans=1)
        for *key, at_ms in reversed(rows):
            self._kept.add(tuple(key), at_ms)

    def step(self, connection: sqlite3.Connection, frontier: int) -> Deletion:
        """Thin the next polls up to and including `frontier`. Call `done` after the commit."""
        rows = connection.execute(
            "SELECT poll, table_name, cluster, source, at_ms, seq, row_count, bytes FROM batch "  # noqa: S608
            f"WHERE poll > ? AND poll <= ? AND table_name IN ({self._in}) ORDER BY poll LIMIT ?",
            (self.through, frontier, *self._tables, _CHUNK_BATCHES),
        ).fetchall()
        through = frontier
        if len(rows) == _CHUNK_BATCHES:
            through = rows[-1][0] - 1  # its last poll may continue in the next chunk
            rows = [row for row in rows if row[0] <= through]
        newest = _newest_here(connection, [row[:4] for row in rows], through)
        self._next = self._kept.copy()
        surplus = []
        for poll, table, cluster, source, at_ms, seq, row_count, size in rows:
            key = (table, cluster, source)
            if newest.get(key) == poll:
                self._next.add(key, at_ms)
            elif not self._next.keeps(key, at_ms):
                surplus.append((seq, poll, row_count, size))
        removed = _delete(connection, surplus)
        return Deletion(removed.batches, removed.rows, removed.bytes, through)

    def done(self, removed: Deletion) -> None:
        """Record that the step was committed."""
        self._kept = self._next
        self.through = removed.through


def _newest_here(
    connection: sqlite3.Connection, rows: Iterable[tuple[int, str, str, str]], through: int
) -> dict[tuple[str, str, str], int]:
    """By table, cluster and source, the poll of the newest batch, where no poll after `through` has one.

    `rows` are the batches up to `through`, in the order of polls: poll, table, cluster and source of each.
    """
    newest = {(table, cluster, source): poll for poll, table, cluster, source in rows}
    return {key: poll for key, poll in newest.items() if not _has_batch(connection, key, ">", through)}


def older_half(connection: sqlite3.Connection) -> int:
    """The last poll of the older half; 0 if there is none."""
    (polls,) = connection.execute("SELECT count(DISTINCT poll) FROM batch").fetchone()
    query = "SELECT DISTINCT poll FROM batch ORDER BY poll LIMIT 1 OFFSET ?"
    middle = connection.execute(query, (polls // 2,)).fetchone()
    return int(middle[0]) - 1 if middle else 0


def drop_oldest(connection: sqlite3.Connection, size: int, kept: Iterable[int]) -> Deletion:
    """Over the cap: delete the oldest polls, at least `size` bytes of them, but neither the newest ones nor `kept`."""
    seqs = json.dumps(list(kept))
    newest = connection.execute("SELECT DISTINCT poll FROM batch ORDER BY poll DESC LIMIT ?", (KEPT_NEWEST,)).fetchall()
    if not newest:
        return Deletion(0, 0, 0, 0)
    rows = connection.execute(
        "SELECT seq, poll, row_count, bytes FROM batch WHERE poll < ? "  # noqa: S608 - constants
        f"AND {_NOT_IN} ORDER BY poll LIMIT ?",
        (newest[-1][0], seqs, _CHUNK_BATCHES),
    ).fetchall()
    chosen = _prefix(rows, min(size, _CHUNK_BYTES))
    if not chosen:
        return Deletion(0, 0, 0, 0)
    through = chosen[-1][1]
    rest = connection.execute(
        f"SELECT seq, poll, row_count, bytes FROM batch WHERE poll = ? AND {_NOT_IN}",  # noqa: S608 - constants
        (through, seqs),
    ).fetchall()
    return _delete(connection, {row[0]: row for row in (*chosen, *rest)}.values())


def _prefix(rows: list[tuple[int, int, int, int]], size: int) -> list[tuple[int, int, int, int]]:
    """The first rows with at least `size` bytes."""
    chosen: list[tuple[int, int, int, int]] = []
    for row in rows:
        if size <= 0:
            break
        chosen.append(row)
        size -= row[3]
    return chosen


def _delete(connection: sqlite3.Connection, rows: Iterable[tuple[int, int, int, int]]) -> Deletion:
    rows = list(rows)
    connection.executemany("DELETE FROM batch WHERE seq = ?", ((row[0],) for row in rows))
    through = max((row[1] for row in rows), default=0)
    return Deletion(len(rows), sum(row[2] for row in rows), sum(row[3] for row in rows), through)
