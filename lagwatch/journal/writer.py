"""The agent's journal: appends polls, stores cursors and checkpoints, and applies retention."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from lagwatch.batch import Batch
from lagwatch.catalogue import BUILT_IN, Catalogue
from lagwatch.clock import Clock, SystemClock
from lagwatch.errors import JournalError
from lagwatch.journal.cursors import Cursor
from lagwatch.journal.durable import DurableFile
from lagwatch.journal.pending import PendingCheckpoint, PendingPoll
from lagwatch.journal.queries import LIMIT_BYTES, LIMIT_POLLS, PollSelection
from lagwatch.journal.records import Checkpoint, JournalStats, Poll
from lagwatch.journal.rows import CorruptRow, encode_batch, encode_checkpoint
from lagwatch.journal.size_cap import Cap
from lagwatch.journal.trimming import Trimming

_log = logging.getLogger(__name__)

_WAL_BYTES = 4 * 2**20


class Journal:
    """One agent's journal. Thread-safe.

    The constructor raises JournalInUseError if another agent has the file, and JournalError if a newer lagwatch wrote it.
    Any other error of the file becomes a `fault`: polls are kept in memory, and every append retries.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        cap_bytes: int = 2 * 2**30,
        history_seconds: float = 24 * 3600,
        partition_rows_every_seconds: float = 60,
        memory_bytes: int = 64 * 2**20,
        catalogue: Catalogue = BUILT_IN,
        clock: Clock | None = None,
    ) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise JournalError(f"{self.path}: is a directory; set journal.path to a file")
        partition_tables = frozenset(table.name for table in catalogue if table.per_partition)
        wal_limit = max(65_536, min(_WAL_BYTES, cap_bytes // 16))
        every_ms = round(partition_rows_every_seconds * 1000)
        self._cap = Cap(self.path, cap_bytes, partition_tables, every_ms)
        self._file = DurableFile(self.path, self._cap, wal_limit, memory_bytes, clock or SystemClock())
        self._lock = self._file.lock
        self._trimming = Trimming(
            self._file,
            partition_tables,
            history_ms=round(history_seconds * 1000),
            every_ms=every_ms,
            wal_limit=wal_limit,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write the waiting polls, and release the file and the lock. A second call does nothing."""
        with self._lock:
            self._file.close()

    @property
    def fault(self) -> str | None:
        """Why the file cannot be written; None if it can."""
        return self._file.fault

    @property
    def fault_since_ms(self) -> int | None:
        """Since when there is a fault."""
        return self._file.fault_since_ms

    @property
    def newest_poll(self) -> int:
        """The number of the newest poll appended, in the file or in memory."""
        with self._lock:
            return self._file.next_poll() - 1

    def append(self, batches: Sequence[Batch]) -> int:
        """Write all batches of one poll in one transaction and return its number.

        When it returns, the poll is on disk, or in memory during a `fault`. Without batches it writes nothing and returns
        the newest number.
        """
        encoded = [encode_batch(batch) for batch in batches]
        with self._lock:
            self._file.check_open()
            if not encoded:
                return self.newest_poll
            poll = self._file.take_number()
            self._file.pending.add(PendingPoll(poll, encoded))
            self._file.flush()
            self._file.state.count_dropped("memory_full", self._file.pending.shed())
            return poll

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
        """Like JournalReader.read, but returns no polls instead of raising if the file cannot be read."""
        newest = self.newest_poll  # a higher number can only come from a damaged index
        through = newest if through_poll is None else min(through_poll, newest)
        wanted = PollSelection(after_poll, through, from_ms, to_ms, limit_bytes, limit_polls, tables, clusters)
        found = self._file.query(lambda: self._file.reader.find(wanted))
        if found is None:
            return []
        if found.corrupt:
            self._delete_corrupt(found.corrupt)
        return found.polls

    def tail(self, after_poll: int = 0, *, tables: Collection[str] | None = None) -> Iterator[Poll]:
        """Every poll in the file after `after_poll`, read in portions."""
        while polls := self.read(after_poll, tables=tables):
            yield from polls
            after_poll = polls[-1].poll

    def newest(self, cluster: str | None = None, tables: Collection[str] | None = None) -> list[Batch]:
        """The newest batch in the file of each cluster, table and source, in the order of writing."""
        return self._file.query(lambda: self._file.reader.newest(cluster, tables)) or []

    def _delete_corrupt(self, rows: Sequence[CorruptRow]) -> None:
        """Delete and count corrupt rows in one transaction, so that they are counted once."""

        def delete(connection: sqlite3.Connection) -> None:
            with self._file.committing(connection) as state:
                for row in rows:
                    if connection.execute("DELETE FROM batch WHERE seq = ?", (row.seq,)).rowcount:
                        state.count_dropped("corrupt", row.row_count)

        with self._lock:
            self._file.try_write(delete)
        _log.warning("corrupt journal rows skipped path=%s batches=%d", self.path, len(rows))

    def save_checkpoint(self, parts: Mapping[str, bytes], at_ms: int, *, poll: int | None = None) -> None:
        """Save state that covers every poll up to and including `poll` (default: the newest).

        If other threads append, pass the newest poll as it was before the state was taken.
        """
        body = encode_checkpoint(parts)
        with self._lock:
            self._file.check_open()
            self._file.pending_checkpoint = PendingCheckpoint(self.newest_poll if poll is None else poll, at_ms, body)
            self._file.flush()

    def load_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint with a matching CRC."""
        return self._file.query(self._file.reader.load_checkpoint)

    def register_sink(self, sink: str, *, start: Literal["head", "oldest"] = "head") -> Cursor:
        """Create a cursor for a sink, unless it has one."""
        with self._lock:
            self._file.check_open()
            state = self._file.state
            if sink not in state.cursors:
                # A damaged entry may have been the cursor of this sink: shipping twice is harmless, skipping is not.
                oldest = start == "oldest" or state.damaged > 0
                state.set_cursor(sink, Cursor(0 if oldest else self.newest_poll))
                self._file.flush_unless_faulty()
            return self.cursor(sink)

    def unregister_sink(self, sink: str) -> None:
        """Remove the cursor of a sink; polls are no longer kept for it."""
        with self._lock:
            self._file.state.remove_cursor(sink)
            self._file.flush_unless_faulty()

    def cursor(self, sink: str) -> Cursor:
        """The cursor of a sink."""
        with self._lock:
            try:
                return self._file.state.cursors[sink]
            except KeyError:
                raise JournalError(f'{self.path}: no sink "{sink}" is registered') from None

    def advance_live(self, sink: str, poll: int) -> None:
        """Record that a sink has shipped every poll up to and including `poll`, except its backfill."""
        self._move(sink, poll, Cursor.advanced)

    def jump_live(self, sink: str, poll: int) -> None:
        """Let a sink continue after `poll`; the polls it skips, `poll` included, become backfill."""
        self._move(sink, poll, Cursor.jumped)

    def advance_backfill(self, sink: str, poll: int) -> None:
        """Record that a sink has shipped its backfill up to and including `poll`."""
        self._move(sink, poll, Cursor.backfilled)

    def _move(self, sink: str, poll: int, change: Callable[[Cursor, int], Cursor]) -> None:
        with self._lock:
            self._file.check_open()
            if poll > self.newest_poll:
                raise ValueError(f"sink {sink} cannot go to poll {poll}: the newest is {self.newest_poll}")
            cursor = self.cursor(sink)
            moved = change(cursor, poll)
            if moved != cursor:
                self._file.state.set_cursor(sink, moved)
                self._file.flush_unless_faulty()

    def reconfigure(self, *, history_seconds: float, partition_rows_every_seconds: float) -> None:
        """Change how long the history is kept, and how densely."""
        every_ms = round(partition_rows_every_seconds * 1000)
        with self._lock:
            self._trimming.reconfigure(history_ms=round(history_seconds * 1000), every_ms=every_ms)
            self._cap.every_ms = every_ms

    def trim(self, now_ms: int) -> int:
        """Delete polls that every sink has shipped, a checkpoint covers and the history no longer needs; thin the rest.

        Call it about once a minute. Works in short steps, so that appends can run in between. Returns the number of deleted
        batches.
        """
        return self._trimming.run(now_ms)

    def stats(self) -> JournalStats:
        """Statistics of the journal."""
        with self._lock:
            state, pending, newest = self._file.state.copy(), len(self._file.pending), self.newest_poll
        found = self._file.query(lambda: self._file.reader.figures(state))
        if found is None:
            found = JournalStats(self.path, 0, 0, 0, None, None, newest, {}, state.dropped, {}, None, None)
        return replace(
            found,
            newest_poll=newest,
            fault=self.fault,
            fault_since_ms=self.fault_since_ms,
            pending_polls=pending,
        )
