"""Opens the SQLite file of the journal, checks its schema, and sets unreadable files aside."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

from lagwatch.errors import JournalError

_log = logging.getLogger(__name__)

APPLICATION_ID = 0x4C414757  # "LAGW"
FILE_VERSION = 2  # 2: a batch names its source
_SET_ASIDE_KEPT = 2  # a disk that corrupts file after file must not be filled with them

# The index covers every column except the payload, so that statistics and retention never read payload pages.
_SCHEMA = {
    "batch": "CREATE TABLE batch (seq INTEGER PRIMARY KEY, poll INTEGER, at_ms INTEGER, table_name TEXT, cluster TEXT, "
    "source TEXT, schema_version INTEGER, row_count INTEGER, bytes INTEGER, crc INTEGER, payload BLOB)",
    "batch_by_poll": "CREATE INDEX batch_by_poll ON batch (poll, table_name, cluster, source, at_ms, row_count, bytes)",
    "batch_by_source": "CREATE INDEX batch_by_source ON batch (cluster, table_name, source, poll)",
    "batch_by_time": "CREATE INDEX batch_by_time ON batch (at_ms, poll)",
    "checkpoint": "CREATE TABLE checkpoint (seq INTEGER PRIMARY KEY, poll INTEGER, at_ms INTEGER, crc INTEGER, "
    "body BLOB)",
    "state": "CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT, crc INTEGER) WITHOUT ROWID",
}


class UnreadableError(Exception):
    """The file is not a journal, or is damaged."""


def open_writable(path: Path, wal_bytes: int) -> sqlite3.Connection:
    """Open the journal, creating it if it does not exist.

    Raises UnreadableError for a file to set aside, JournalError for a journal of a newer lagwatch, and sqlite3.Error for
    damage (see `is_corruption`) and for errors of the disk or of permissions.
    """
    with _opened(path, "rwc") as connection:
        if _is_empty(connection):
            _create(connection)
        else:
            _check_identity(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = OFF")  # else each freed page is written out as zeros
        page_size = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.execute(f"PRAGMA wal_autocheckpoint = {max(1, wal_bytes // page_size)}")
        connection.execute(f"PRAGMA journal_size_limit = {wal_bytes}")
    return connection


def open_readonly(path: Path) -> sqlite3.Connection:
    """Open for reading, whether or not an agent writes it. Raises JournalError, UnreadableError or sqlite3.Error."""
    if not path.exists():
        raise JournalError(f"{path}: there is no journal; start an agent with this journal.path first")
    try:
        with _opened(path, "ro") as connection:
            _check_identity(connection, path)
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        # A read-only directory without an agent: SQLite cannot create its -shm file, and without it no process can write.
        with _opened(path, "ro", "&immutable=1") as connection:
            _check_identity(connection, path)
    return connection


def close(connection: sqlite3.Connection) -> None:
    """Close, ignoring errors."""
    with contextlib.suppress(sqlite3.Error):
        connection.close()


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commits at the end; rolls back on any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def is_corruption(error: sqlite3.Error) -> bool:
    """Whether the file itself is damaged, rather than the disk full, read-only or failing, or the file locked."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    if code == sqlite3.SQLITE_ERROR:  # our statements are constant, so a missing table means a damaged schema
        return str(error).startswith(("no such", "malformed"))
    return code == sqlite3.SQLITE_IOERR_SHORT_READ or code & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
    )


def describe(error: Exception, path: Path) -> str:
    """The reason in words. Checks the volume, since SQLite reports most causes as "I/O error"."""
    name = getattr(error, "sqlite_errorname", None)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    with contextlib.suppress(OSError):
        volume = os.statvfs(path.parent)
        if volume.f_flag & os.ST_RDONLY:
            return f"{path}: the disk is read-only"
        if code == sqlite3.SQLITE_FULL or volume.f_bavail == 0:
            return f"{path}: the disk is full"
    if code == sqlite3.SQLITE_BUSY:
        return f"{path}: another process has it locked"
    return f'{path}: "{error}"' + (f" ({name})" if name else "")


def set_aside(path: Path, now_ms: int, reason: str) -> Path:
    """Rename an unreadable journal and its log, so that a new one can be created. Raises OSError."""
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.unreadable-{stamp}")
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.unreadable-{stamp}-{number}")
    for suffix in ("-wal", "-shm", ""):  # the file last: if killed in between, the next start sets it aside again
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(target.with_name(target.name + suffix))
    _log.warning('journal unreadable, created a new one path=%s set_aside=%s reason="%s"', path, target, reason)
    _remove_oldest(path)
    return target


def was_set_aside(path: Path) -> bool:
    """Whether an earlier journal of this name was set aside."""
    return any(path.parent.glob(path.name + ".unreadable-*"))


def _remove_oldest(path: Path) -> None:
    files = [file for file in path.parent.glob(path.name + ".unreadable-*") if not file.name.endswith(("-wal", "-shm"))]
    files.sort(key=lambda file: file.stat().st_ctime_ns)
    for file in files[:-_SET_ASIDE_KEPT]:
        _log.warning("old unreadable journal removed path=%s kept=%d", file, _SET_ASIDE_KEPT)
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path, mode: str, options: str = "") -> Iterator[sqlite3.Connection]:
    """A connection that stays open unless its first statements fail."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}{options}",
        uri=True,
        timeout=1.0,
        isolation_level=None,
        check_same_thread=False,
    )
    # Damaged text must reach the CRC check instead of failing with a decoding error.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield connection
    except UnicodeDecodeError as exc:  # SQLite quotes a damaged schema in its error, and Python cannot decode that
        close(connection)
        raise UnreadableError("its schema is damaged") from exc
    except BaseException:
        close(connection)
        raise


def _is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables and no application id: new, or left by a kill or a full disk while being created."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(tables == 0 and application == 0)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect only before the first page is written
    connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FILE_VERSION}")
        for statement in _SCHEMA.values():
            connection.execute(statement)
        connection.execute("INSERT INTO state VALUES ('written_by', ?, NULL)", (_lagwatch_version(),))


def _check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Check that this is a journal of our format. SQLite may accept a damaged header or schema, so compare all of it."""
    try:
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        }
        if found["application_id"] != APPLICATION_ID:
            raise UnreadableError("it is the database of another application")
        if found["user_version"] > FILE_VERSION:
            row = connection.execute("SELECT value FROM state WHERE key = 'written_by'").fetchone()
            written_by = row[0] if row else "(unknown)"
            if written_by == _lagwatch_version():  # then the format cannot be newer: the number is damaged
                raise UnreadableError("its header is damaged")
            raise JournalError(
                f"{path}: written by lagwatch {written_by} in format "
                f"{found['user_version']}; this is lagwatch {_lagwatch_version()}, which reads up to format {FILE_VERSION}; "
                "run the newer version, or move the file away"
            )
        if found["user_version"] < FILE_VERSION:
            raise UnreadableError(f"its format is {found['user_version']}, this lagwatch reads format {FILE_VERSION}")
        schema = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
        encoding = connection.execute("PRAGMA encoding").fetchone()[0]
        vacuum = connection.execute("PRAGMA auto_vacuum").fetchone()[0]
    except sqlite3.Error as exc:
        if is_corruption(exc):
            raise UnreadableError(str(exc)) from exc
        raise
    if (schema, encoding, vacuum) != (_SCHEMA, "UTF-8", 2):
        raise UnreadableError("its schema is damaged")


def _lagwatch_version() -> str:
    try:
        return version("lagwatch")
    except PackageNotFoundError:
        return "unknown"
