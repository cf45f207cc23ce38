"""Reads the archive: as one Arrow table, or as the batches it was written from."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from lagwatch.batch import Batch
from lagwatch.batch import conform as conform_batch
from lagwatch.catalogue import Table
from lagwatch.sinks.archive.columns import AT, archive_schema, conformed, times_of, working_schema
from lagwatch.sinks.archive.hour import CLUSTER_KEY
from lagwatch.sinks.archive.layout import (
    HOUR_MS,
    ArchivedFile,
    day_of,
    escape_cluster,
    hour_of,
    parse_day,
    parse_path,
    unescape_cluster,
)
from lagwatch.sinks.archive.store import ArchiveStore
from lagwatch.sinks.archive.thinning import decode_sources

_ROWS_AT_ONCE = 1_000_000


def read_archive(
    root: str,
    table: Table,
    day: date | None = None,
    cluster: str | None = None,
    *,
    filesystem: fs.FileSystem | None = None,
) -> pa.Table:
    """All rows of a table, or of one day or cluster of it, with `cluster` as the first column.

    Holds the whole result in memory. Raises SinkError.
    """
    store = ArchiveStore(root, filesystem)
    clusters = None if cluster is None else {cluster}
    schema = pa.schema([pa.field("cluster", pa.string()), *archive_schema(table)])
    pieces = []
    for file in _files(store, table, clusters):
        if day is None or day_of(file.hour) == day:
            with (
                store.errors_explained(file.path),
                store.open_copy(file.path) as source,
                pq.ParquetFile(source) as parquet,
            ):
                name = _cluster_of(parquet, file)
                for rows in parquet.iter_batches():
                    named = pa.array([name or None]).take(pa.array(np.zeros(rows.num_rows, np.int8)))
                    columns = [named.cast(pa.string()), *conformed(rows, archive_schema(table)).columns]
                    pieces.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(pieces, schema)


def archived_batches(
    root: str,
    table: Table,
    from_ms: int,
    to_ms: int,
    clusters: Collection[str] | None = None,
    *,
    filesystem: fs.FileSystem | None = None,
) -> Iterator[Batch]:
    """The batches of a table with a time in [from_ms, to_ms), by hour, then cluster, then time.

    Holds about a million rows at a time. Raises SinkError.
    """
    store = ArchiveStore(root, filesystem)
    first, last = hour_of(from_ms), hour_of(to_ms - 1)
    for file in _files(store, table, clusters, (first, last)):
        start, end = max(from_ms, file.hour * HOUR_MS), min(to_ms, (file.hour + 1) * HOUR_MS)
        with store.errors_explained(file.path), store.open_copy(file.path) as source, pq.ParquetFile(source) as parquet:
            name = _cluster_of(parquet, file)
            sources = decode_sources(parquet.metadata.metadata)
            # Files are sorted by series, so a time range is spread over the whole file: a large file is read once for
            # each range.
            rows = parquet.metadata.num_rows * (end - start) / HOUR_MS
            edges = np.linspace(start, end, math.ceil(rows / _ROWS_AT_ONCE) + 1).astype(np.int64)
            for low, high in pairwise(edges):
                yield from _span(parquet, table, name, int(low), int(high), sources)


def _span(
    parquet: pq.ParquetFile, table: Table, cluster: str, low: int, high: int, sources: Mapping[int, Sequence[str]]
) -> Iterator[Batch]:
    schema = working_schema(table)
    pieces = []
    for rows in parquet.iter_batches():
        times = times_of(rows)
        found = rows.filter(pa.array((times >= low) & (times < high)))
        if found.num_rows:
            pieces.append(conformed(found, schema))
    if not pieces:
        return
    rows = pa.Table.from_batches(pieces).unify_dictionaries().combine_chunks().to_batches()[0]
    rows = rows.take(pc.sort_indices(rows.column(AT)))  # stable: the series stay in order
    times = times_of(rows)
    starts = [0, *(np.flatnonzero(times[1:] != times[:-1]) + 1).tolist(), len(times)]
    for start, end in pairwise(starts):
        part = rows.slice(start, end - start).select(table.schema.names)
        at_ms = int(times[start])
        source = "+".join(sources.get(at_ms, ()))  # rows of two sources in the same millisecond were merged
        yield Batch(table.name, cluster, at_ms, conform_batch(part, table), source=source)


def _files(
    store: ArchiveStore, table: Table, clusters: Collection[str] | None, hours: tuple[int, int] | None = None
) -> list[ArchivedFile]:
    """The finished files of a table, sorted; `hours` are the first and the last to include."""
    wanted = None if clusters is None else {escape_cluster(name) for name in clusters}
    found = []
    for folder in store.children(table.name):
        day = parse_day(folder.base_name)
        if day is None or (hours and not day_of(hours[0]) <= day <= day_of(hours[1])):
            continue
        for info in store.children(f"{table.name}/{folder.base_name}", recursive=True):
            file = parse_path(store.below(info.path))
            if (
                file is not None
                and (wanted is None or file.cluster_folder in wanted)
                and (hours is None or hours[0] <= file.hour <= hours[1])
            ):
                found.append(file)
    return sorted(found)


def _cluster_of(parquet: pq.ParquetFile, file: ArchivedFile) -> str:
    name = (parquet.metadata.metadata or {}).get(CLUSTER_KEY.encode())
    return unescape_cluster(file.cluster_folder) if name is None else name.decode()
