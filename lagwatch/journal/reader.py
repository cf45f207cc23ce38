"""Reads a journal from outside the agent, whether or not an agent is writing it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from lagwatch.batch import Batch
from lagwatch.clock import Clock, SystemClock
from lagwatch.errors import JournalError
from lagwatch.journal import file, queries, size_cap
from lagwatch.journal.queries import LIMIT_BYTES, LIMIT_POLLS, FoundPolls, PollSelection
from lagwatch.journal.records import Checkpoint, JournalStats, Poll
from lagwatch.journal.state import JournalState, load_state


class JournalReader:
    """Reads a journal without a lock and never writes to it.

    Every call opens and closes the file, so nothing is held between calls and each call reads the latest state. Calls
    raise JournalError if there is no journal or it cannot be read; single corrupt rows are skipped and counted in
    `corrupt_rows`.
    """

    def __init__(self, path: Path | str, clock: Clock | None = None) -> None:
        self.path = Path(path)
        self.corrupt_rows = 0
        self._clock = clock or SystemClock()

    def read(
        self,
        after_poll: int,
        *,
        through_poll: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit_bytes: int = LIMIT_BYTES,
        limit_polls: int = LIMIT_POLLS,
        tables: Collection[str] | None = None,
        clusters: Collection[str] | None = None,
    ) -> list[Poll]:
        """The polls after `after_poll` in order with a time in [from_ms, to_ms), at least one if there is one.

        A poll without a selected batch is returned without batches, so that a cursor can pass it.
        """
        found = self.find(
            PollSelection(after_poll, through_poll, from_ms, to_ms, limit_bytes, limit_polls, tables, clusters)
        )
        self.corrupt_rows += sum(row.row_count for row in found.corrupt)
        return found.polls

    def find(self, wanted: PollSelection) -> FoundPolls:
        """Like `read`, but also returns the corrupt rows."""
        with self.connection() as connection:
            return queries.read_polls(connection, wanted)

    def tail(
        self,
        after_poll: int = 0,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        tables: Collection[str] | None = None,
    ) -> Iterator[Poll]:
        """Every poll after `after_poll` with a time in [from_ms, to_ms), read in portions."""
        while polls := self.read(after_poll, from_ms=from_ms, to_ms=to_ms, tables=tables):
            yield from polls
            after_poll = polls[-1].poll

    def newest(self, cluster: str | None = None, tables: Collection[str] | None = None) -> list[Batch]:
        """The newest batch of each cluster, table and source, in the order of writing."""
        return [batch for poll in self.newest_polls(cluster, tables) for batch in poll.batches]

    def newest_polls(self, cluster: str | None = None, tables: Collection[str] | None = None) -> list[Poll]:
        """Like `newest`, in the polls that wrote these batches, oldest poll first."""
        with self.connection() as connection:
            return queries.newest_polls(connection, cluster, tables)

    def newest_poll(self) -> int:
        """The number of the newest poll; 0 if there is none."""
        with self.connection() as connection:
            return queries.newest_poll(connection)

    def newest_poll_numbers(
        self, most: int, tables: Collection[str] | None = None, clusters: Collection[str] | None = None
    ) -> list[int]:
        """The numbers of the newest polls with a batch of these tables and clusters, newest first."""
        with self.connection() as connection:
            wanted = PollSelection(0, limit_polls=most, tables=tables, clusters=clusters)
            return queries.newest_poll_numbers(connection, wanted)

    def newest_times(self, table: str, cluster: str, source: str, most: int) -> list[int]:
        """The times of the newest batches of a table and source, newest first."""
        with self.connection() as connection:
            return queries.newest_times(connection, (table, cluster, source), most)

    def load_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint with a matching CRC."""
        with self.connection() as connection:
            return queries.newest_checkpoint(connection)

    def stats(self) -> JournalStats:
        """Statistics of the journal."""
        return self.figures(None)

    def figures(self, state: JournalState | None) -> JournalStats:
        """Like `stats`, with the agent's cursors and counts, which may be newer than the file's."""
        with self.connection() as connection:
            state = state or load_state(connection)
            tables = queries.table_stats(connection)
            polls, oldest_ms, newest_ms = queries.span(connection)
            checkpoint = connection.execute("SELECT poll, at_ms FROM checkpoint ORDER BY seq DESC LIMIT 1").fetchone()
            return JournalStats(
                path=self.path,
                polls=polls,
                rows=sum(table.rows for table in tables.values()),
                bytes=size_cap.used_bytes(connection) + size_cap.wal_bytes(self.path),
                oldest_ms=oldest_ms,
                newest_ms=newest_ms,
                newest_poll=queries.newest_poll(connection),
                tables=tables,
                dropped=state.dropped,
                cursors=queries.cursor_stats(connection, state.cursors.items()),
                checkpoint_poll=checkpoint[0] if checkpoint else None,
                checkpoint_age_ms=self._clock.wall_ms() - checkpoint[1] if checkpoint else None,
            )

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection for a few short statements. Turns SQLite's errors into a JournalError."""
        try:
            connection = file.open_readonly(self.path)
            try:
                yield connection
            finally:
                file.close(connection)
        except file.UnreadableError as exc:
            raise JournalDamagedError(f"{self.path}: this is not a readable journal: {exc}") from exc
        except sqlite3.Error as exc:
            if file.is_corruption(exc):
                raise JournalDamagedError(f'{self.path}: this journal is damaged: "{exc}"') from exc
            raise JournalError(f"cannot be read: {file.describe(exc, self.path)}") from exc


class JournalDamagedError(JournalError):
    """The file itself is damaged; an agent that opens it sets it aside and creates a new one."""
