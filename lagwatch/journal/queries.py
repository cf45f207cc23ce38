"""Reads a journal over an open connection.

Each function runs a few short statements: an open transaction would prevent SQLite from reusing the write-ahead log,
which would grow without limit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from lagwatch.batch import Batch
from lagwatch.journal.cursors import Cursor
from lagwatch.journal.file import UnreadableError
from lagwatch.journal.records import Checkpoint, CursorStats, Poll, TableStats
from lagwatch.journal.rows import COLUMNS, CorruptRow, decode_batch, decode_checkpoint

LIMIT_BYTES = 16 * 2**20
LIMIT_POLLS = 1000
_MAX_OLDER_TRIED = 10
_MAX_KEYS = 1_000_000  # a damaged index could make the walk over its keys endless


@dataclass(frozen=True, slots=True)
class PollSelection:
    """Which batches to read: polls in (after, through] with a time in [from_ms, to_ms)."""

    after: int
    through: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit_bytes: int = LIMIT_BYTES
    limit_polls: int = LIMIT_POLLS
    tables: Collection[str] | None = None
    clusters: Collection[str] | None = None


@dataclass(slots=True)
class FoundPolls:
    """The polls read, and their corrupt rows."""

    polls: list[Poll] = field(default_factory=list)
    corrupt: list[CorruptRow] = field(default_factory=list)


def read_polls(connection: sqlite3.Connection, wanted: PollSelection) -> FoundPolls:
    """Whole polls in order, up to the limits but at least one if there is one.

    A poll without a selected batch is returned without batches, so that a cursor can pass it.
    """
    numbers = _poll_numbers(connection, wanted)
    found = FoundPolls()
    if not numbers:
        return found
    where, parameters = _filter(wanted)
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM batch WHERE poll BETWEEN ? AND ?{where} ORDER BY poll, seq",  # noqa: S608 - constants
        (min(numbers), max(numbers), *parameters),
    ).fetchall()
    batches: dict[int, list[Batch]] = {}
    for row in rows:
        batch = decode_batch(row)
        if isinstance(batch, CorruptRow):
            found.corrupt.append(batch)
        else:
            batches.setdefault(row[1], []).append(batch)
    for poll, at_ms in numbers.items():
        kept = tuple(batches.get(poll, ()))
        found.polls.append(Poll(poll, max((batch.at_ms for batch in kept), default=at_ms), kept))
    return found


def _poll_numbers(connection: sqlite3.Connection, wanted: PollSelection) -> dict[int, int]:
    """The polls within the limits, each with its time, read from the index alone."""
    after, last = _poll_bounds(connection, wanted)
    where, times = _time_filter(wanted)
    cursor = connection.execute(
        f"SELECT poll, table_name, cluster, at_ms, bytes FROM batch WHERE poll > ? AND poll <= ?{where} ORDER BY poll",  # noqa: S608
        (after, last, *times),
    )
    numbers: dict[int, int] = {}
    size, previous = 0, wanted.after
    try:
        for poll, rows in groupby(cursor, key=lambda row: row[0]):
            kept = list(rows)
            _check_index(previous, kept)
            previous = poll
            size += sum(row[4] for row in kept if _is_wanted(row[1], row[2], wanted))
            if numbers and (size > wanted.limit_bytes or len(numbers) >= wanted.limit_polls):
                break
            numbers[poll] = max(row[3] for row in kept)
    finally:
        cursor.close()
    return numbers


def _poll_bounds(connection: sqlite3.Connection, wanted: PollSelection) -> tuple[int, int]:
    """The range of polls to scan, narrowed with the index on times."""
    after, last = wanted.after, wanted.through if wanted.through is not None else 2**63 - 1
    where, times = _time_filter(wanted)
    if where:
        low, high = connection.execute(
            f"SELECT min(poll), max(poll) FROM batch INDEXED BY batch_by_time WHERE 1{where}",  # noqa: S608
            times,
        ).fetchone()
        after, last = (max(after, low - 1), min(last, high)) if low is not None else (last, last)
    return after, last


def _time_filter(wanted: PollSelection) -> tuple[str, list[int]]:
    bounds = ((">=", wanted.from_ms), ("<", wanted.to_ms))
    given = [(sign, at_ms) for sign, at_ms in bounds if at_ms is not None]
    return "".join(f" AND at_ms {sign} ?" for sign, _ in given), [at_ms for _, at_ms in given]


def _check_index(previous: int, rows: list[tuple[Any, ...]]) -> None:
    """Check for damage: the index has no CRC, and a wrong number could move a cursor past polls that were never shipped."""
    if (
        not all(isinstance(number, int) for row in rows for number in (row[0], row[3], row[4]))
        or rows[0][0] <= previous
    ):
        raise UnreadableError("its index is damaged")


def _is_wanted(table: str, cluster: str, wanted: PollSelection) -> bool:
    return (wanted.tables is None or table in wanted.tables) and (wanted.clusters is None or cluster in wanted.clusters)


def _filter(wanted: PollSelection) -> tuple[str, list[str | int]]:
    where, times = _time_filter(wanted)
    parameters: list[str | int] = list(times)
    for column, names in (("table_name", wanted.tables), ("cluster", wanted.clusters)):
        if names is not None:
            where += f" AND {column} IN ({', '.join('?' * len(names))})"
            parameters += list(names)
    return where, parameters


# The newest batch of each cluster, table and source, as a subquery. It jumps from key to key in the index, so its cost
# depends on the number of keys, not on the number of polls. The next key takes three seeks: for (cluster, table_name,
# source) > (...) SQLite seeks by cluster alone, and would step over every batch of the cluster to reach each key.
NEWEST = f"""
WITH RECURSIVE key(seq, cluster, table_name, source) AS (
    SELECT * FROM (
        SELECT seq, cluster, table_name, source FROM batch
        WHERE cluster >= :first ORDER BY cluster, table_name, source LIMIT 1
    )
    UNION ALL
    SELECT next.seq, next.cluster, next.table_name, next.source FROM key JOIN batch AS next ON next.seq = coalesce(
        (
            SELECT seq FROM batch WHERE cluster = key.cluster AND table_name = key.table_name AND source > key.source
            ORDER BY source LIMIT 1
        ),
        (
            SELECT seq FROM batch WHERE cluster = key.cluster AND table_name > key.table_name
            ORDER BY table_name, source LIMIT 1
        ),
        (SELECT seq FROM batch WHERE cluster > key.cluster ORDER BY cluster, table_name, source LIMIT 1)
    )
    WHERE next.cluster <= :last
    LIMIT {_MAX_KEYS}
)
SELECT (
    SELECT seq FROM batch
    WHERE cluster = key.cluster AND table_name = key.table_name AND source = key.source
    ORDER BY poll DESC LIMIT 1
)
FROM key
WHERE cluster BETWEEN :first AND :last
    AND (:tables IS NULL OR table_name IN (SELECT value FROM json_each(:tables)))
"""  # noqa: S608 - constants
OF_ALL = {"first": "", "last": "\U0010ffff", "tables": None}  # parameters of NEWEST


def newest_polls(
    connection: sqlite3.Connection, cluster: str | None = None, tables: Collection[str] | None = None
) -> list[Poll]:
    """The newest readable batch of each cluster, table and source, in the polls that wrote them, oldest poll first."""
    wanted: dict[str, str | None] = {**OF_ALL, "tables": None if tables is None else json.dumps(sorted(tables))}
    if cluster is not None:
        wanted |= {"first": cluster, "last": cluster}
    found: dict[int, list[Batch]] = {}
    query = f"SELECT {COLUMNS} FROM batch WHERE seq IN ({NEWEST}) ORDER BY poll, seq"  # noqa: S608 - constants
    for row in connection.execute(query, wanted).fetchall():
        batch = decode_batch(row)
        readable = [(row[1], batch)] if isinstance(batch, Batch) else _before_corrupt(connection, row)
        for number, newest in readable:
            found.setdefault(number, []).append(newest)
    return [
        Poll(number, max(batch.at_ms for batch in batches), tuple(batches)) for number, batches in sorted(found.items())
    ]


def _before_corrupt(connection: sqlite3.Connection, row: tuple[Any, ...]) -> list[tuple[int, Batch]]:
    """The newest readable batch of a key whose newest row is corrupt, with its poll."""
    _, poll, _, table, cluster, source, *_ = row
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM batch WHERE cluster = ? AND table_name = ? AND source = ? AND poll < ? "  # noqa: S608
        f"ORDER BY poll DESC LIMIT {_MAX_OLDER_TRIED}",
        (cluster, table, source, poll),
    ).fetchall()
    decoded = [(older[1], decode_batch(older)) for older in rows]
    return [(number, batch) for number, batch in decoded if isinstance(batch, Batch)][:1]


def newest_times(connection: sqlite3.Connection, key: tuple[str, str, str], most: int) -> list[int]:
    """The times of the newest batches of a table, cluster and source, newest first."""
    table, cluster, source = key
    rows = connection.execute(
        "SELECT at_ms FROM batch WHERE cluster = ? AND table_name = ? AND source = ? ORDER BY poll DESC LIMIT ?",
        (cluster, table, source, most),
    )
    return [at_ms for (at_ms,) in rows.fetchall()]


def newest_checkpoint(connection: sqlite3.Connection) -> Checkpoint | None:
    """The newest checkpoint whose CRC matches."""
    rows = connection.execute("SELECT poll, at_ms, crc, body FROM checkpoint ORDER BY seq DESC")
    try:
        for row in rows:
            checkpoint = decode_checkpoint(*row)
            if checkpoint is not None:
                return checkpoint
        return None
    finally:
        rows.close()


def newest_poll(connection: sqlite3.Connection) -> int:
    """The highest poll number; 0 if there is none."""
    return int(connection.execute("SELECT coalesce(max(poll), 0) FROM batch").fetchone()[0])


def oldest_poll(connection: sqlite3.Connection) -> int:
    """The lowest poll number; 0 if there is none."""
    return int(connection.execute("SELECT coalesce(min(poll), 0) FROM batch").fetchone()[0])


def newest_poll_numbers(connection: sqlite3.Connection, wanted: PollSelection) -> list[int]:
    """The numbers of the newest `limit_polls` polls with a selected batch, newest first."""
    where, parameters = _filter(wanted)
    rows = connection.execute(
        f"SELECT DISTINCT poll FROM batch WHERE poll > ?{where} ORDER BY poll DESC LIMIT ?",  # noqa: S608 - constants
        (wanted.after, *parameters, wanted.limit_polls),
    )
    return [poll for (poll,) in rows.fetchall()]


def table_stats(connection: sqlite3.Connection) -> dict[str, TableStats]:
    """Batches, rows and bytes of each table."""
    rows = connection.execute(
        "SELECT table_name, count(*), sum(row_count), sum(bytes) FROM batch GROUP BY table_name ORDER BY table_name"
    )
    return {
        str(name): TableStats(batches, int(row_count or 0), int(size or 0))
        for name, batches, row_count, size in rows.fetchall()
    }


def cursor_stats(connection: sqlite3.Connection, cursors: Iterable[tuple[str, Cursor]]) -> dict[str, CursorStats]:
    """Each cursor with the number of polls it has yet to ship."""

    def count(first: int, last: int) -> int:
        query = "SELECT count(DISTINCT poll) FROM batch WHERE poll BETWEEN ? AND ?"
        return int(connection.execute(query, (first, last)).fetchone()[0])

    return {
        name: CursorStats(
            cursor.live,
            cursor.backfill,
            count(cursor.live + 1, 2**63 - 1) + sum(count(first, last) for first, last in cursor.backfill),
        )
        for name, cursor in cursors
    }


def span(connection: sqlite3.Connection) -> tuple[int, int | None, int | None]:
    """The number of polls, and the oldest and newest time.

    A newest batch of a key does not count as the oldest, as long as there are others: retention keeps it however old it is.
    """
    polls = connection.execute("SELECT count(DISTINCT poll) FROM batch").fetchone()[0]
    (oldest,) = connection.execute(
        f"SELECT coalesce(min(at_ms), (SELECT min(at_ms) FROM batch)) FROM batch WHERE seq NOT IN ({NEWEST})",  # noqa: S608
        OF_ALL,
    ).fetchone()
    newest: Any = connection.execute("SELECT max(at_ms) FROM batch").fetchone()[0]
    return int(polls), oldest, newest
