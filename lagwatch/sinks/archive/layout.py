"""Builds and parses the archive's paths: `<table>/day=2026-01-31/cluster=<name>/<HH>.parquet`, in UTC.

This is Hive partitioning: Spark, DuckDB and pyarrow take `day` and `cluster` from the folder names and skip folders that
a query does not select.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import unquote

HOUR_MS = 3_600_000
NO_CLUSTER = "_agent"  # for rows about the agent itself; pyarrow could not infer a type from null values alone
_RESERVED = (NO_CLUSTER, "__HIVE_DEFAULT_PARTITION__")  # the second means null to every reader
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME = 200  # bytes; filesystems allow 255, `cluster=` included
_CLUSTER_PREFIX = "cluster="
_UNSAFE = re.compile(r"[\x00-\x7f]")
_SAFE = re.compile(r"[A-Za-z0-9._-]")
_DAY = re.compile(r"day=(\d{4}-\d{2}-\d{2})")
_FILE = re.compile(r"(\d{2})\.parquet")
_WORKING = re.compile(r"\.\d{2}\.parquet\.part|_\d{2}\.parquet\.(old|unreadable)")


@dataclass(frozen=True, slots=True)
class HourFile:
    """One file of the archive: an hour (counted from 1970) of one table of one cluster."""

    table: str
    cluster: str
    hour: int

    @property
    def path(self) -> str:
        """Its path below the archive's root."""
        at = _EPOCH + timedelta(hours=self.hour)
        return f"{self.table}/day={at:%Y-%m-%d}/{_CLUSTER_PREFIX}{escape_cluster(self.cluster)}/{at:%H}.parquet"


@dataclass(frozen=True, slots=True, order=True)
class ArchivedFile:
    """A finished file of the archive; sorts by hour, then cluster. `cluster_folder` is an escaped cluster name."""

    hour: int
    cluster_folder: str
    path: str


def hour_of(at_ms: int) -> int:
    """The hour of a time, counted from 1970."""
    return at_ms // HOUR_MS


def day_of(hour: int) -> date:
    """The day of an hour."""
    return (_EPOCH + timedelta(hours=hour)).date()


def escape_cluster(name: str) -> str:
    """A cluster's name as part of a folder name.

    Only ASCII is percent-encoded: Spark decodes `%C3%A9` to two characters and leaves `é` unchanged. A name too long for
    a folder is cut and made unique by a hash; the files hold the full name.
    """
    if not name:
        return NO_CLUSTER
    text = _UNSAFE.sub(lambda found: found[0] if _SAFE.match(found[0]) else f"%{ord(found[0]):02X}", name)
    if text in _RESERVED:
        text = "%5F" + text[1:]
    if len(text.encode()) <= _LONGEST_NAME:
        return text
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    cut = text.encode()[: _LONGEST_NAME - 17].decode(errors="ignore")
    return f"{re.sub('%[0-9A-F]?$', '', cut)}~{digest}"  # `~` in a name is encoded, so no other name can look like this


def unescape_cluster(folder: str) -> str:
    """The inverse of `escape_cluster`; a name that was cut stays cut."""
    return "" if folder == NO_CLUSTER else unquote(folder)


def part_path(path: str) -> str:
    """The temporary path a file is written to. Spark skips names that begin with a dot or an underscore."""
    return _beside(path, ".{}.part")


def old_path(path: str) -> str:
    """Where a file is kept while it is replaced, on a filesystem that cannot rename over it."""
    return _beside(path, "_{}.old")


def unreadable_path(path: str) -> str:
    """Where a file that cannot be read is set aside."""
    return _beside(path, "_{}.unreadable")


def replaced_by(old: str) -> str:
    """The inverse of `old_path`."""
    folder, _, name = old.rpartition("/")
    return f"{folder}/{name.removeprefix('_').removesuffix('.old')}"


def _beside(path: str, pattern: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{pattern.format(name)}"


def parse_day(folder: str) -> date | None:
    """The day of a folder name; None if the archive does not use such names."""
    found = _DAY.fullmatch(folder)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def parse_path(path: str) -> ArchivedFile | None:
    """The finished file at a path below the root; None if the archive does not use such paths."""
    folders, _, name = path.rpartition("/")
    day, cluster_folder = _parse_folders(folders)
    hour = _parse_hour(name)
    if day is None or cluster_folder is None or hour is None:
        return None
    return ArchivedFile((day - _EPOCH.date()).days * 24 + hour, cluster_folder, path)


def is_archive_path(path: str) -> bool:
    """Whether the archive itself creates files at such a path: finished, temporary or set aside."""
    folders, _, name = path.rpartition("/")
    is_file = _parse_hour(name) is not None or _WORKING.fullmatch(name) is not None
    return is_file and None not in _parse_folders(folders)


def is_leftover(path: str) -> bool:
    """Whether a file at this path was left by a crash: half written, or not yet replaced."""
    return is_archive_path(path) and path.endswith((".part", ".old"))


def is_replaced_file(path: str) -> bool:
    """Whether this is an `old_path`."""
    return path.endswith(".old")


def _parse_folders(folders: str) -> tuple[date | None, str | None]:
    """The day and the cluster folder in `<table>/day=<day>/cluster=<name>`."""
    parts = folders.split("/")
    if len(parts) != 3 or not parts[2].startswith(_CLUSTER_PREFIX):
        return None, None
    return parse_day(parts[1]), parts[2].removeprefix(_CLUSTER_PREFIX)


def _parse_hour(name: str) -> int | None:
    found = _FILE.fullmatch(name)
    return int(found[1]) if found and int(found[1]) < 24 else None
