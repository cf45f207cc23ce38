"""Where an hour of rows lies in the archive: `<table>/day=2026-01-31/cluster=<name>/<HH>.parquet`, in UTC.

Hive's way of naming folders: Spark, DuckDB and pyarrow read `day` and `cluster` from them and skip what is not asked for.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import unquote

HOUR_MS = 3_600_000
NO_CLUSTER = "_agent"  # of rows about the agent itself; an absent value would leave pyarrow without a type for it
_TAKEN = (NO_CLUSTER, "__HIVE_DEFAULT_PARTITION__")  # the second means "absent" to every reader
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME = 200  # bytes; filesystems take 255 for `cluster=` and all
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
        return f"{self.table}/day={at:%Y-%m-%d}/cluster={escape_cluster(self.cluster)}/{at:%H}.parquet"


def hour_of(at_ms: int) -> int:
    """The hour a time lies in, counted from 1970."""
    return at_ms // HOUR_MS


def day_of(hour: int) -> date:
    """The day an hour lies in."""
    return (_EPOCH + timedelta(hours=hour)).date()


def escape_cluster(name: str) -> str:
    """A cluster's name as part of a folder's name.

    Only ASCII is percent-encoded: Spark decodes `%C3%A9` to two characters, and leaves `é` as it is. A name too long for
    a folder is cut and told apart by a hash; the files hold the whole name.
    """
    if not name:
        return NO_CLUSTER
    text = _UNSAFE.sub(lambda found: found[0] if _SAFE.match(found[0]) else f"%{ord(found[0]):02X}", name)
    if text in _TAKEN:
        text = "%5F" + text[1:]
    if len(text.encode()) <= _LONGEST_NAME:
        return text
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    cut = text.encode()[: _LONGEST_NAME - 17].decode(errors="ignore")
    return f"{re.sub('%[0-9A-F]?$', '', cut)}~{digest}"  # `~` itself would be encoded: no other name looks like this


def unescape_cluster(folder: str) -> str:
    """The name behind `escape_cluster`; of one that was cut, what is left of it."""
    return "" if folder == NO_CLUSTER else unquote(folder)


def part_path(path: str) -> str:
    """Where a file is written before it gets its name. Spark skips names that begin with a dot or an underscore."""
    return _beside(path, ".{}.part")


def old_path(path: str) -> str:
    """Where the file to be replaced waits, on a filesystem that cannot rename over it."""
    return _beside(path, "_{}.old")


def unreadable_path(path: str) -> str:
    """Where a file that cannot be read is set aside."""
    return _beside(path, "_{}.unreadable")


def replaced_by(old: str) -> str:
    """The path behind `old_path`."""
    folder, _, name = old.rpartition("/")
    return f"{folder}/{name.removeprefix('_').removesuffix('.old')}"


def _beside(path: str, pattern: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{pattern.format(name)}"


def parse_day(folder: str) -> date | None:
    """The day of a folder's name; None when the name is not one of ours."""
    found = _DAY.fullmatch(folder)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def parse_hour(name: str) -> int | None:
    """The hour of the day of a file's name; None when the name is not one of ours."""
    found = _FILE.fullmatch(name)
    return int(found[1]) if found and int(found[1]) < 24 else None


def is_ours(name: str) -> bool:
    """Whether the archive gives files such a name."""
    return parse_hour(name) is not None or _WORKING.fullmatch(name) is not None
