"""The journal file behind a queue in memory, so that appending never fails.

Owns the lock, the only writing connection and the state beside the batches. If the disk is full or read-only, polls wait
in memory and the next append retries; a damaged file is set aside and a new one created.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from lagwatch.clock import Clock
from lagwatch.errors import JournalError
from lagwatch.journal import file, queries
from lagwatch.journal.cursors import Cursor
from lagwatch.journal.file import UnreadableError, is_corruption
from lagwatch.journal.lock import JournalLock
from lagwatch.journal.pending import PendingCheckpoint, PendingPolls
from lagwatch.journal.reader import JournalDamagedError, JournalReader
from lagwatch.journal.records import CHECKPOINTS_KEPT
from lagwatch.journal.rows import INSERT
from lagwatch.journal.size_cap import Cap, CapReachedError
from lagwatch.journal.state import JournalState, load_state

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_SLICE_BYTES = 8 * 2**20  # of waiting polls to write in one transaction
_HIGHEST_POLL = 2**62


class DurableFile:
    """The writing end of a journal. Callers hold `lock` around every method except `query`."""

    def __init__(self, path: Path, cap: Cap, wal_limit: int, memory_bytes: int, clock: Clock) -> None:
        """Open the file. Raises JournalInUseError, or JournalError for a file of a newer lagwatch."""
        self.path = path
        self.lock = threading.RLock()
        self.reader = JournalReader(path, clock)
        self.pending = PendingPolls(memory_bytes)
        self.pending_checkpoint: PendingCheckpoint | None = None
        self.state = JournalState()
        self.fault: str | None = None
        self.fault_since_ms: int | None = None
        self.connected = 0  # how often the file was opened; cached facts about an earlier file may be wrong
        self._fault_since = 0.0
        self._written_late = 0
        self._cap = cap
        self._wal_limit = wal_limit
        self._clock = clock
        self._file_lock = JournalLock(path)
        self._connection: sqlite3.Connection | None = None
        self._next_poll: int | None = None  # None until the file was read, or found missing
        self._loaded = False
        self._closed = False
        try:
            self._flush()
        except JournalError:
            self._file_lock.release()
            raise

    def check_open(self) -> None:
        """Raises JournalError after `close`."""
        if self._closed:
            raise JournalError(f"{self.path}: the journal is closed")

    def close(self) -> None:
        """Write the waiting polls, and release the file and the lock. A second call does nothing."""
        if self._closed:
            return
        self.flush()
        self._closed = True
        self._disconnect()
        self._file_lock.release()
        if self.pending:
            _log.warning('journal closed with unwritten polls polls=%d reason="%s"', len(self.pending), self.fault)

    def next_poll(self) -> int:
        """The number of the next poll.

        If an earlier journal was set aside or cannot be read now, numbers continue from the wall clock in milliseconds,
        which is higher than any earlier number, so that they stay unique.
        """
        if self._next_poll is None:
            written = None
            with contextlib.suppress(JournalError), self.reader.connection() as connection:
                written = queries.newest_poll(connection)
            self._next_poll = self._number_after(written)
        return self._next_poll

    def take_number(self) -> int:
        """Like `next_poll`, and increments it."""
        number = self.next_poll()
        self._next_poll = number + 1
        return number

    def _number_after(self, written: int | None) -> int:
        if written:
            return written + 1
        return self._clock.wall_ms() if written is None or file.was_set_aside(self.path) else 1

    def flush(self) -> None:
        """Write the waiting polls. Errors become a `fault`; a damaged file is set aside and a new one created."""
        try:
            self._flush()
        except JournalError as exc:
            self._failed(str(exc))

    def flush_unless_faulty(self) -> None:
        """Like `flush`, but does nothing during a fault: the next append retries."""
        if self.fault is None:
            self.flush()

    def _flush(self) -> None:
        for last in (False, True):
            try:
                self._write(self._open())
            except (UnreadableError, sqlite3.Error) as exc:
                if last or not _is_damage(exc):
                    return self._failed(file.describe(exc, self.path))
                if not self._replace_damaged(str(exc)):
                    return None
            except OSError as exc:
                return self._failed(file.describe(exc, self.path))
            except CapReachedError as exc:
                return self._failed(str(exc))
            else:
                return self._recovered()
        return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file_lock.acquire()
            connection = file.open_writable(self.path, self._wal_limit)
            try:
                self._load(connection)
            except BaseException:
                file.close(connection)
                raise
            self._connection = connection
            self.connected += 1
        return self._connection

    def _load(self, connection: sqlite3.Connection) -> None:
        written = queries.newest_poll(connection)
        if written >= _HIGHEST_POLL:
            raise UnreadableError("its index is damaged")
        if not self._loaded:
            self.state = load_state(connection).joined(self.state)
            self._next_poll = max(self._number_after(written), self._next_poll or 0)
            self._loaded = True
        # A transaction that reported an error may have been committed: do not write its polls twice.
        self.pending.remove_through(written)

    def _write(self, connection: sqlite3.Connection) -> None:
        while self.pending:
            polls = self.pending.first(min(_SLICE_BYTES, self._cap.largest_bytes))
            size = sum(poll.bytes for poll in polls)
            if size > self._cap.largest_bytes:
                self._discard(f"poll={polls[0].poll}", size)
                self.state.count_dropped("too_large", self.pending.remove().rows)
                continue
            self._cap.make_room(connection, size, self.committing)
            with self.committing(connection):
                for poll in polls:
                    connection.executemany(INSERT, (batch.parameters(poll.poll) for batch in poll.batches))
            self._written_late += len(polls)
            self.pending.remove_through(polls[-1].poll)
        if self.pending_checkpoint is not None:
            self._write_checkpoint(connection, self.pending_checkpoint)
        if self.state.unsaved:
            with self.committing(connection):
                pass

    def _write_checkpoint(self, connection: sqlite3.Connection, checkpoint: PendingCheckpoint) -> None:
        if len(checkpoint.body) > self._cap.largest_bytes:  # the polls since the previous one are kept instead
            self._discard("checkpoint", len(checkpoint.body))
        else:
            self._cap.make_room(connection, len(checkpoint.body), self.committing)
            with self.committing(connection):
                connection.execute(
                    "INSERT INTO checkpoint (poll, at_ms, crc, body) VALUES (?, ?, ?, ?)", checkpoint.row
                )
                connection.execute(
                    "DELETE FROM checkpoint WHERE seq NOT IN (SELECT seq FROM checkpoint ORDER BY seq DESC LIMIT ?)",
                    (CHECKPOINTS_KEPT,),
                )
        self.pending_checkpoint = None

    def _discard(self, what: str, size: int) -> None:
        limit = self._cap.largest_bytes
        _log.warning("journal cap too small, discarded %s bytes=%d max_bytes=%d path=%s", what, size, limit, self.path)

    @contextlib.contextmanager
    def committing(self, connection: sqlite3.Connection) -> Iterator[JournalState]:
        """One transaction for the file and the state in memory, so that the two never differ."""
        before = self.state.copy()
        try:
            with file.transaction(connection):
                yield self.state
                self.state.save(connection)
        except BaseException:
            self.state = before
            raise
        self.state.unsaved.clear()

    def try_write(self, work: Callable[[sqlite3.Connection], _T]) -> _T | None:
        """Run `work` on the connection, for changes that can also be made later. None if it fails; see `fault`."""
        if self._connection is None:
            return None
        try:
            return work(self._connection)
        except (UnreadableError, sqlite3.Error) as exc:
            if not _is_damage(exc):
                self._failed(file.describe(exc, self.path))
            elif self._replace_damaged(str(exc)):
                self.flush()
            return None

    def query(self, read: Callable[[], _T]) -> _T | None:
        """Run `read`, which uses the reader, without blocking the writer. None if it fails; see `fault`."""
        try:
            return read()
        except JournalDamagedError:
            pass
        except JournalError:
            return None
        with self.lock:
            try:
                return read()  # again without a writer: a file that is being set aside looks damaged too
            except JournalDamagedError as exc:
                if self._connection is not None and self._replace_damaged(str(exc)):
                    self.flush()
            except JournalError:
                pass
            return None

    def _failed(self, reason: str) -> None:
        # Reconnect at the next attempt: the volume may have been remounted in the meantime.
        self._disconnect()
        if reason != self.fault:
            _log.warning('journal not writable, keeping polls in memory reason="%s"', reason)
        if self.fault is None:
            self.fault_since_ms, self._fault_since = self._clock.wall_ms(), self._clock.monotonic()
            self._written_late = 0
        self.fault = reason

    def _recovered(self) -> None:
        if self.fault is not None:
            _log.info(
                "journal recovered path=%s down_for=%ds polls_written_late=%d",
                self.path,
                self._clock.monotonic() - self._fault_since,
                self._written_late,
            )
            self.fault = self.fault_since_ms = None

    def _disconnect(self) -> None:
        if self._connection is not None:
            file.close(self._connection)
            self._connection = None

    def _replace_damaged(self, reason: str) -> bool:
        """Set a damaged file aside. Rows that were not shipped are lost, and counted if the file can still be read."""
        rows = 0
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                rows = self._connection.execute("SELECT coalesce(sum(row_count), 0) FROM batch").fetchone()[0]
        self._disconnect()
        try:
            file.set_aside(self.path, self._clock.wall_ms(), reason)
        except OSError as exc:
            self._failed(file.describe(exc, self.path))
            return False
        if self._loaded:
            waiting = self.pending.first(0)
            lost = (waiting[0].poll if waiting else self.next_poll()) - 1
            self.state.count_dropped("unreadable", rows)
            self.state.reset_for_new_file(Cursor(lost))
        return True


def _is_damage(error: Exception) -> bool:
    return isinstance(error, UnreadableError) or (isinstance(error, sqlite3.Error) and is_corruption(error))
