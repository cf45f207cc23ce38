"""The newest batch of each table and source of one cluster: a frozen value, replaced whole after each run.

Readers share it by reference and take no lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lagwatch.batch import Batch, is_retired
from lagwatch.catalogue import BUILT_IN, LOGS

Key = tuple[str, str]  # table and source


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest batches by table and source, in the order they were written."""

    cluster: str
    batches: Mapping[Key, Batch] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: str, batches: Iterable[Batch]) -> Snapshot:
        """The snapshot of these batches, which are in the order they were written."""
        return cls(cluster).with_run(batches)

    def with_run(self, batches: Iterable[Batch]) -> Snapshot:
        """The snapshot after one more run of a source; without the source if the run is its last rows."""
        newest = dict(self.batches)
        for batch in batches:
            if is_retired(batch):
                newest = {key: kept for key, kept in newest.items() if key[1] != batch.source}
            elif batch.table not in LOGS:
                newest.pop((batch.table, batch.source), None)
                newest[batch.table, batch.source] = batch
        return Snapshot(self.cluster, newest)

    def without(self, sources: Collection[str]) -> Snapshot:
        """The snapshot without sources that are no longer polled."""
        return Snapshot(self.cluster, {key: batch for key, batch in self.batches.items() if key[1] not in sources})

    @property
    def at_ms(self) -> int | None:
        """When its newest batch was collected; None when it is empty."""
        return max((batch.at_ms for batch in self.batches.values()), default=None)

    @property
    def sources(self) -> set[str]:
        """The sources of its batches."""
        return {source for _, source in self.batches}

    def run(self, source: str) -> dict[str, Batch]:
        """The newest batches of one source, by table."""
        return {table: batch for (table, of), batch in self.batches.items() if of == source}

    def newest(self, table: str, source: str | None = None) -> Batch | None:
        """The newest batch of a table, of one source or of any."""
        return next(reversed(self.all_of(table, source)), None)

    def all_of(self, table: str, source: str | None = None) -> list[Batch]:
        """The newest batch of each source of a table, oldest first."""
        return [
            batch for (name, of), batch in self.batches.items() if name == table and (source is None or of == source)
        ]

    def columns(self, table: str, *names: str, source: str | None = None) -> Iterator[tuple[Any, ...]]:
        """These columns of a table, row by row, source after source."""
        for batch in self.all_of(table, source):
            yield from zip(*(batch.rows[name].to_pylist() for name in names), strict=True)

    def merged(self, table: str) -> list[dict[str, Any]]:
        """One row for each key, from the fields each source writes: the newest known value wins."""
        tags = [tag.name for tag in BUILT_IN[table].tags if tag.name != "cluster"]
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for batch in self.all_of(table):
            for row in batch.rows.to_pylist():
                kept = rows.setdefault(tuple(row[tag] for tag in tags), dict.fromkeys(row))
                kept.update({name: value for name, value in row.items() if value is not None})
        return [rows[key] for key in sorted(rows)]
