"""Collects one hour of rows and writes its files.

Batches are spooled poll by poll as sorted blocks. A file is written one range of series at a time, so that memory holds a
chunk of the hour and never the whole hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lagwatch.batch import Batch
from lagwatch.catalogue import Table
from lagwatch.sinks.archive.columns import (
    AT,
    conformed,
    encodings,
    identity,
    joined,
    keys_of,
    one_row_each,
    tag_names,
    times_of,
    with_time,
    working_schema,
)
from lagwatch.sinks.archive.layout import HOUR_MS, HourFile
from lagwatch.sinks.archive.spool import Block, Key, Spool, between
from lagwatch.sinks.archive.store import ArchiveStore
from lagwatch.sinks.archive.thinning import SOURCES_KEY, HourTimes, decode_sources

CHUNK_ROWS = 256 * 1024
_READ_ROWS = 64 * 1024
_POLLS_AN_HOUR = 720  # expected for tables that are not thinned
CLUSTER_KEY = "lagwatch.cluster"  # in the file's metadata: the full cluster name, since the folder name is escaped


@dataclass
class FileRows:
    """The rows of one file so far: spooled blocks in order of arrival, and the times to keep."""

    schema: pa.Schema
    times: HourTimes
    blocks: list[Block] = field(default_factory=list)


class OpenHour:
    """One hour of all tables and clusters. Polls from `first_poll` on are in no file yet."""

    def __init__(self, hour: int, first_poll: int, spool: Spool, span_ms: int) -> None:
        self.hour = hour
        self.first_poll = first_poll
        self._spool = spool
        self._span_ms = span_ms
        self._rows: dict[HourFile, tuple[Table, FileRows]] = {}

    def take(self, batches: Sequence[tuple[Table, Batch]]) -> None:
        """Add these batches, or none of them if it raises."""
        taken: list[tuple[HourFile, Table, FileRows]] = []
        with self._spool.undone_on_error():
            for table, batch in batches:
                file = HourFile(table.name, batch.cluster, self.hour)
                before = self._rows[file][1] if file in self._rows else self._no_rows(table)
                rows = self._spooled(table, batch, before.times)
                if rows is not None:
                    taken.append((file, table, rows))
        for file, table, rows in taken:
            _, known = self._rows.setdefault(file, (table, self._no_rows(table)))
            _add(known, rows)

    def finish(self, store: ArchiveStore) -> None:
        """Write the files. After a failure the next call writes only the files that are still missing."""
        for file, (table, rows) in list(self._rows.items()):
            self._finish_file(store, file, table, rows)
            del self._rows[file]
        self._spool.close()

    def close(self) -> None:
        """Discard the rows; the journal still has them."""
        self._spool.close()

    def _no_rows(self, table: Table) -> FileRows:
        span_ms = self._span_ms if table.per_partition else 0
        return FileRows(working_schema(table), HourTimes(span_ms))

    def _block_rows(self, table: Table) -> int:
        """The block size at which a chunk can hold one block of every poll."""
        polls = HOUR_MS // self._span_ms if table.per_partition and self._span_ms else _POLLS_AN_HOUR
        return max(128, CHUNK_ROWS // max(60, polls))

    def _spooled(self, table: Table, batch: Batch, times: HourTimes) -> FileRows | None:
        if not times.wants(batch.source, batch.at_ms):
            return None
        known = self._no_rows(table)
        known.times.add(batch.source, batch.at_ms)
        known.schema = joined(known.schema, batch.rows.schema)
        rows = conformed(with_time(batch.rows, batch.at_ms), known.schema)
        known.blocks = self._spool.append(rows, tag_names(table), self._block_rows(table))
        return known

    def _finish_file(self, store: ArchiveStore, file: HourFile, table: Table, rows: FileRows) -> None:
        size = self._spool.size
        try:
            if store.exists(file.path):
                rows = self._with_existing(store, file, table, rows)
            store.write_whole(file.path, lambda stream: self._fill(stream, file, table, rows))
        finally:
            self._spool.shrink(size)

    def _with_existing(self, store: ArchiveStore, file: HourFile, table: Table, rows: FileRows) -> FileRows:
        """The rows of the existing file, then ours. A file that cannot be read is set aside, so that it blocks nothing."""
        before = self._no_rows(table)
        try:
            with store.errors_explained(file.path), store.open_copy(file.path) as source:
                recorded = sources_in(source)
                for at_ms, sources in recorded.items():
                    for name in sources:
                        before.times.add(name, at_ms)
                for piece in pieces_of(source, before.schema, [AT, *tag_names(table)]):
                    before.schema = piece.schema
                    before.times.add_unattributed(set(np.unique(times_of(piece)).tolist()) - recorded.keys())
                    before.blocks += self._spool.append(piece, tag_names(table), self._block_rows(table))
        except DamagedError as error:
            store.set_aside(file.path, str(error))
            return rows
        _add(before, rows)
        return before

    def _fill(self, stream: Any, file: HourFile, table: Table, rows: FileRows) -> None:
        writer: pq.ParquetWriter | None = None
        try:
            for chunk in self._chunks(table, rows):
                if writer is None:
                    writer = _writer(stream, table, rows.schema, chunk)
                writer.write_table(pa.Table.from_batches([chunk]), row_group_size=chunk.num_rows)
            if writer is not None:
                writer.add_key_value_metadata({CLUSTER_KEY: file.cluster, SOURCES_KEY: rows.times.encode()})
        finally:
            if writer is not None:
                writer.close()

    def _chunks(self, table: Table, rows: FileRows) -> Iterator[pa.RecordBatch]:
        """The rows in order and without duplicates, one range of series at a time."""
        tags = tag_names(table)
        order = [*tags, AT, *(name for name in identity(table) if name not in tags)]
        dropped = rows.times.dropped()
        for low, high in ranges(rows.blocks):
            wanted = [b for b in rows.blocks if (low is None or b.last >= low) and (high is None or b.first < high)]
            pieces = [conformed(between(self._spool.read(b), tags, low, high), rows.schema) for b in wanted]
            chunk = _in_one(pieces, rows.schema)
            if len(dropped):
                chunk = chunk.filter(pa.array(~np.isin(times_of(chunk), dropped)))
            keys = keys_of(chunk, order)
            by_key = np.argsort(keys, kind="stable")
            chunk = one_row_each(chunk.take(pa.array(by_key)), keys[by_key])
            if chunk.num_rows:
                yield chunk


class DamagedError(Exception):
    """The content of a file cannot be read."""


def sources_in(source: Any) -> dict[int, list[str]]:
    """The sources of each time in a Parquet file, from its metadata. Raises DamagedError."""
    try:
        with pq.ParquetFile(source) as parquet:
            return decode_sources(parquet.metadata.metadata)
    except (pa.ArrowException, ValueError) as error:
        raise DamagedError(str(error)) from error


def pieces_of(source: Any, schema: pa.Schema, needed: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in this schema plus its other columns.

    Raises DamagedError if a `needed` column has nulls.
    """
    try:
        with pq.ParquetFile(source) as parquet:
            schema = joined(schema, parquet.schema_arrow)
            for rows in parquet.iter_batches(_READ_ROWS):
                piece = conformed(rows, schema)
                if any(piece.column(name).null_count for name in needed):
                    raise DamagedError("rows without time or tags")
                yield piece
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the disk failed, the file may be fine
        raise DamagedError(str(error)) from error


def _add(rows: FileRows, later: FileRows) -> None:
    rows.schema = joined(rows.schema, later.schema)
    rows.times.merge(later.times)
    rows.blocks += later.blocks


def ranges(blocks: Sequence[Block]) -> Iterator[tuple[Key | None, Key | None]]:
    """Consecutive ranges of series of about one chunk of rows each."""
    low: Key | None = None
    rows = 0
    for first, same in groupby(sorted((block.first, block.rows) for block in blocks), key=lambda pair: pair[0]):
        more = sum(count for _, count in same)
        if rows and rows + more > CHUNK_ROWS:
            yield low, first
            low, rows = first, 0
        rows += more
    yield low, None


def _in_one(pieces: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches(pieces, schema).unify_dictionaries().combine_chunks()
    return next(iter(table.to_batches()), pa.RecordBatch.from_pylist([], schema))


def _writer(stream: Any, table: Table, schema: pa.Schema, first: pa.RecordBatch) -> pq.ParquetWriter:
    tags = tag_names(table)
    series = len(np.unique(keys_of(first, tags)))
    return pq.ParquetWriter(
        stream,
        schema,
        compression="zstd",
        compression_level=3,
        store_schema=False,  # only here are texts dictionary-encoded
        sorting_columns=pq.SortingColumn.from_ordering(schema, [(name, "ascending") for name in [*tags, AT]]),
        **encodings(schema, table, first.num_rows / series),
    )
