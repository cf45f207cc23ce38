"""Reading a journal over an open connection.

Each function is a few short statements: a transaction held open would keep the write-ahead log from being reused, and it
would grow without bound.
"""

from __future__ import annotations

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
_LATEST_TRIED = 10


@dataclass(frozen=True, slots=True)
class PollSelection:
    """Which batches a reader asks for. `through` bounds a backfill."""

    after: int
    through: int | None = None
    limit_bytes: int = LIMIT_BYTES
    limit_polls: int = LIMIT_POLLS
    tables: Collection[str] | None = None
    clusters: Collection[str] | None = None


@dataclass(slots=True)
class FoundPolls:
    """The polls read, and the rows of them that could not be."""

    polls: list[Poll] = field(default_factory=list)
    corrupt: list[CorruptRow] = field(default_factory=list)


def read_polls(connection: sqlite3.Connection, wanted: PollSelection) -> FoundPolls:
    """Whole polls in order, up to the limits but at least one where there is one.

    A poll of which nothing is wanted comes with no batches, so that a cursor can pass it.
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
    """The polls that fit the limits, each with its time, from the index alone."""
    last = wanted.through if wanted.through is not None else 2**63 - 1
    cursor = connection.execute(
        "SELECT poll, table_name, cluster, at_ms, bytes FROM batch WHERE poll > ? AND poll <= ? ORDER BY poll",
        (wanted.after, last),
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


def _check_index(previous: int, rows: list[tuple[Any, ...]]) -> None:
    """The index carries no CRC, and a number damaged in it could send a cursor past polls that were never shipped."""
    if (
        not all(isinstance(number, int) for row in rows for number in (row[0], row[3], row[4]))
        or rows[0][0] <= previous
    ):
        raise UnreadableError("its index is damaged")


def _is_wanted(table: str, cluster: str, wanted: PollSelection) -> bool:
    return (wanted.tables is None or table in wanted.tables) and (wanted.clusters is None or cluster in wanted.clusters)


def _filter(wanted: PollSelection) -> tuple[str, list[str]]:
    where, parameters = "", []
    for column, names in (("table_name", wanted.tables), ("cluster", wanted.clusters)):
        if names is not None:
            where += f" AND {column} IN ({', '.join('?' * len(names))})"
            parameters += list(names)
    return where, parameters


def latest_batches(connection: sqlite3.Connection, table: str, cluster: str | None) -> dict[str, Batch]:
    """The newest readable batch of a table, by cluster."""
    if cluster is None:
        rows = connection.execute("SELECT DISTINCT cluster FROM batch WHERE table_name = ?", (table,))
        clusters = [name for (name,) in rows.fetchall()]
    else:
        clusters = [cluster]
    newest: dict[str, Batch] = {}
    for name in clusters:
        candidates = connection.execute(
            f"SELECT {COLUMNS} FROM batch WHERE seq IN (SELECT seq FROM batch WHERE table_name = ? AND cluster = ? "  # noqa: S608
            f"ORDER BY poll DESC, seq DESC LIMIT {_LATEST_TRIED}) ORDER BY poll DESC, seq DESC",
            (table, name),
        )
        for row in candidates:
            batch = decode_batch(row)
            if isinstance(batch, Batch):
                newest[name] = batch
                break
        candidates.close()
    return newest


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
    """The highest poll number written; 0 when there is none."""
    return int(connection.execute("SELECT coalesce(max(poll), 0) FROM batch").fetchone()[0])


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
    """Each cursor with the kept polls it has still to ship."""

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
    """How many polls are kept, and the oldest and newest time among them."""
    polls = connection.execute("SELECT count(DISTINCT poll) FROM batch").fetchone()[0]
    oldest: Any = connection.execute("SELECT min(at_ms) FROM batch").fetchone()[0]
    newest: Any = connection.execute("SELECT max(at_ms) FROM batch").fetchone()[0]
    return int(polls), oldest, newest
