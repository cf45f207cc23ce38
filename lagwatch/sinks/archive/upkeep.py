"""Removes what a crash left in the archive, and days past their retention. Touches only files of the archive itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from pyarrow import fs

from lagwatch.catalogue import Catalogue
from lagwatch.clock import Clock
from lagwatch.errors import SinkError
from lagwatch.sinks.archive.layout import is_archive_path, is_leftover, is_replaced_file, parse_day, replaced_by
from lagwatch.sinks.archive.store import ArchiveStore

log = logging.getLogger(__name__)

_CHECK_SECONDS = 3600
_STEP_SECONDS = 3600
_DAY_SECONDS = 86_400


def remove_leftovers(store: ArchiveStore, catalogue: Catalogue) -> None:
    """Remove what a previous process left unfinished. Raises SinkError."""
    if not store.renames:
        return  # files are never half written
    for table in catalogue:
        for day, _ in _days(store, table.name):
            for info in store.children(day, recursive=True):
                path = store.below(info.path)
                if info.type != fs.FileType.File or not is_leftover(path):
                    continue
                if is_replaced_file(path) and not store.exists(replaced_by(path)):
                    store.move(path, replaced_by(path))  # stopped between two renames: restore the old file
                else:
                    store.delete(path)
                log.info("archive leftover removed file=%s", path)


class ArchiveRetention:
    """Removes days older than the retention, at most once an hour."""

    def __init__(self, store: ArchiveStore, days: int, catalogue: Catalogue, clock: Clock) -> None:
        self._store = store
        self._days = days
        self._catalogue = catalogue
        self._clock = clock
        self._next = clock.monotonic()
        self._trusted = (clock.wall_ms() / 1000, clock.monotonic())
        self._doubted_since: float | None = None

    def run(self) -> None:
        """Remove what is due, at most once an hour. Failures are logged and retried an hour later."""
        now = self._clock.monotonic()
        if now < self._next:
            return
        self._next = now + _CHECK_SECONDS
        today = self._today(now)
        if today is None:
            return
        try:
            for table in self._catalogue:
                for folder, day in _days(self._store, table.name):
                    if day < today - timedelta(days=self._days):
                        self._remove(folder)
        except SinkError as error:
            log.warning('archive retention failed, retry in an hour error="%s"', error)

    def _today(self, now: float) -> date | None:
        """The current day; None while the clock is in doubt.

        Removal cannot be undone, so a clock set forward by more than an hour is trusted only after a day.
        """
        wall = self._clock.wall_ms() / 1000
        expected = self._trusted[0] + now - self._trusted[1]
        if wall > expected + _STEP_SECONDS:
            if self._doubted_since is None:
                self._doubted_since = now
                log.warning("archive retention paused for a day, the wall clock was set forward")
            if now - self._doubted_since < _DAY_SECONDS:
                return None
        self._trusted, self._doubted_since = (wall, now), None
        return datetime.fromtimestamp(wall, UTC).date()

    def _remove(self, day: str) -> None:
        files = 0
        clusters = []
        for info in self._store.children(day, recursive=True):
            path = self._store.below(info.path)
            if info.type == fs.FileType.File and is_archive_path(path):
                self._store.delete(path)
                files += 1
            elif info.type == fs.FileType.Directory and path.rpartition("/")[0] == day:
                clusters.append(path)
        for folder in [*clusters, day]:
            self._store.delete_empty_folder(folder)
        if files:
            log.info("archive day removed folder=%s files=%d", day, files)


def _days(store: ArchiveStore, table: str) -> Iterator[tuple[str, date]]:
    for info in store.children(table):
        day = parse_day(info.base_name)
        if info.type == fs.FileType.Directory and day is not None:
            yield f"{table}/{info.base_name}", day
