"""The Parquet archive: a sink that writes one file per hour, table and cluster.

Polls are delivered in order. Rows of an hour are spooled until polls have left that hour, then its files are written.
Polls that are in no file yet are not settled, so the journal delivers them again after a restart. Existing files are
merged, so that late or repeated polls never create duplicates. The layout is in `layout.py` and docs/archive.md.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from lagwatch.batch import Batch
from lagwatch.catalogue import Catalogue, Table
from lagwatch.clock import Clock
from lagwatch.errors import SinkError
from lagwatch.sinks.archive.columns import archive_schema
from lagwatch.sinks.archive.hour import OpenHour
from lagwatch.sinks.archive.layout import HOUR_MS, hour_of
from lagwatch.sinks.archive.reading import archived_batches, read_archive
from lagwatch.sinks.archive.spool import Spool
from lagwatch.sinks.archive.store import ArchiveStore
from lagwatch.sinks.archive.upkeep import ArchiveRetention, remove_leftovers

__all__ = ["ArchiveSink", "archive_schema", "archived_batches", "read_archive"]

log = logging.getLogger(__name__)

GRACE_MS = 300_000
"""How far polls must be past an hour before its files are written: clusters poll in parallel, and a slow poll of the old
hour may arrive after a quick one of the new hour."""


class ArchiveSink:
    """Implements `lagwatch.protocols.Sink`. Not thread-safe.

    The constructor does not touch the archive; the first `write` does. `spool_folder` holds the rows of unfinished hours
    (about 10 bytes each); the default is the archive's own volume, or the system's temporary folder if the archive is
    remote. Only one agent may write to an archive.
    """

    name = "archive"
    in_order = True

    def __init__(
        self,
        url: str,
        *,
        retention_days: int,
        catalogue: Catalogue,
        clock: Clock,
        partition_rows_every_seconds: float = 60,
        spool_folder: Path | None = None,
        filesystem: fs.FileSystem | None = None,
    ) -> None:
        """`filesystem` is for one that pyarrow cannot open by URL; `url` is then a path in it."""
        self._store = ArchiveStore(url, filesystem, spool_folder)
        self._catalogue = catalogue
        self._span_ms = round(partition_rows_every_seconds * 1000)
        self._retention = ArchiveRetention(self._store, retention_days, catalogue, clock)
        self._open: dict[int, OpenHour] = {}
        self._started = False
        self._unknown: set[str] = set()

    def write(self, poll: int, batches: Sequence[Batch]) -> None:
        """Add one poll, after writing the files of hours that polls have left. Adds nothing if it raises SinkError.

        Writing the files of a large hour takes seconds.
        """
        self._store.ready()
        if not self._started:
            remove_leftovers(self._store, self._catalogue)
            self._started = True
        self._retention.run()
        known = [(self._catalogue[b.table], b) for b in batches if len(b) and self._is_known(b.table)]
        if known:
            self._finish_left(known[-1][1].at_ms)
        for hour, members in groupby(known, key=lambda pair: hour_of(pair[1].at_ms)):
            self._take(poll, hour, list(members))

    def settled(self, poll: int) -> int:
        """The newest poll whose rows are all in finished files."""
        return min([poll, *(hour.first_poll - 1 for hour in self._open.values())])

    def close(self) -> None:
        """Discard unfinished hours."""
        for hour in self._open.values():
            hour.close()
        self._open.clear()

    def _finish_left(self, at_ms: int) -> None:
        """Write hours that polls have left, in either direction: a clock set back must not leave one open for ever."""
        for hour, rows in sorted(self._open.items()):
            if not hour * HOUR_MS - GRACE_MS <= at_ms < (hour + 1) * HOUR_MS + GRACE_MS:
                rows.finish(self._store)
                del self._open[hour]

    def _take(self, poll: int, hour: int, batches: list[tuple[Table, Batch]]) -> None:
        with self._store.errors_explained():
            rows = self._open.get(hour) or OpenHour(hour, poll, Spool(self._store.spool_folder), self._span_ms)
            try:
                rows.take(batches)
            except BaseException as error:
                if hour not in self._open:
                    rows.close()
                if isinstance(error, pa.ArrowException | KeyError | ValueError):
                    raise SinkError(f'archive: rows do not fit their table: "{error}"', retriable=False) from error
                raise
        self._open[hour] = rows

    def _is_known(self, table: str) -> bool:
        if table in self._catalogue:
            return True
        if table not in self._unknown:
            self._unknown.add(table)
            log.warning("archive skips unknown table table=%s", table)
        return False
