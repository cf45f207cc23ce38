"""A batch: the rows of one table from one run of one source, in columns. Collectors, pipeline, journal and sinks use it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.catalogue import SCHEMA_VERSION, SOURCE, Table

_ZSTD = pa.Codec("zstd", compression_level=3)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one table. `at_ms` is the wall time of the collection, so a repeated write gives the same point.

    `source` is the job that wrote it: several jobs write parts of one table (offsets, sizes, JMX). The pipeline sets it;
    batches from a collector do not have it yet.
    """

    table: str
    cluster: str
    at_ms: int
    rows: pa.RecordBatch
    schema_version: int = SCHEMA_VERSION
    source: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Table, cluster and source. A snapshot holds the newest batch of each key."""
        return self.table, self.cluster, self.source

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True, slots=True)
class Texts:
    """A dictionary-encoded text column: 100,000 rows of 1,000 groups hold 1,000 strings."""

    codes: npt.NDArray[np.int32]
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Masked:
    """A number column with a mask for values that are known.

    An int64 column with nulls must not pass through float64, which loses digits above 2^53.
    """

    values: npt.NDArray[Any]
    known: npt.NDArray[np.bool_]


Column = Sequence[Any] | npt.NDArray[Any] | Texts | Masked  # or an Arrow array, which has no type here


def is_retired(batch: Batch) -> bool:
    """Whether these are the last rows of a source that was removed from the configuration."""
    if batch.table != SOURCE.name or "retired" not in batch.rows.schema.names:  # checkpoints of older versions lack it
        return False
    return any(batch.rows["retired"].to_pylist())


def make_batch(table: Table, cluster: str, at_ms: int, columns: Mapping[str, Column], *, source: str = "") -> Batch:
    """Build a batch in the table's schema. Columns that are not given are null in every row."""
    unknown = columns.keys() - set(table.schema.names)
    if unknown:
        raise ValueError(f"table {table.name} has no column {', '.join(sorted(unknown))}")
    return Batch(table.name, cluster, at_ms, make_rows(table.schema, columns), source=source)


def make_rows(schema: pa.Schema, columns: Mapping[str, Column]) -> pa.RecordBatch:
    """Rows in a schema. Columns that are not given are null in every row."""
    length = _length(next(iter(columns.values()))) if columns else 0
    arrays = [
        _array(columns[field.name], field.type) if field.name in columns else pa.nulls(length, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def replace_columns(batch: Batch, columns: Mapping[str, Column]) -> Batch:
    """The batch with these columns replaced."""
    schema = batch.rows.schema
    arrays = [
        _array(columns[field.name], field.type) if field.name in columns else batch.rows.column(field.name)
        for field in schema
    ]
    return replace(batch, rows=pa.RecordBatch.from_arrays(arrays, schema=schema))


def _length(column: Column) -> int:
    if isinstance(column, Texts):
        return len(column.codes)
    return len(column.values) if isinstance(column, Masked) else len(column)


def _array(column: Column, arrow_type: pa.DataType) -> pa.Array:
    if isinstance(column, pa.Array):
        return column.cast(arrow_type)
    if isinstance(column, Texts):
        return pa.DictionaryArray.from_arrays(pa.array(column.codes, pa.int32()), pa.array(column.values, pa.string()))
    if pa.types.is_float32(arrow_type):  # seconds, rounded to tenths
        column = _tenths(column)
    if isinstance(column, Masked):
        return pa.array(column.values, mask=~column.known).cast(arrow_type)
    if isinstance(column, np.ndarray):
        return pa.array(column).cast(arrow_type)
    return pa.array(column, type=arrow_type)


def _tenths(column: Sequence[Any] | npt.NDArray[Any] | Masked) -> npt.NDArray[Any] | Masked | list[float | None]:
    if isinstance(column, Masked):
        return Masked(np.round(column.values, 1), column.known)
    if isinstance(column, np.ndarray):
        return np.round(column, 1)
    return [None if value is None else round(value, 1) for value in column]


def encode_rows(rows: pa.RecordBatch) -> bytes:
    """The rows as an Arrow stream in a zstd frame, for the journal, after 4 bytes with the length of the stream.

    Arrow's own compression does not compress the schema: a batch of one row takes 2 to 4 kB, and here a fifth of that.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    stream = sink.getvalue()
    return struct.pack("<I", stream.size) + bytes(_ZSTD.compress(stream, asbytes=True))


def decode_rows(payload: bytes) -> pa.RecordBatch:
    """The inverse of `encode_rows`. Raises struct.error or errors of pyarrow on other bytes."""
    (size,) = struct.unpack_from("<I", payload)
    with pa.ipc.open_stream(_ZSTD.decompress(memoryview(payload)[4:], size)) as reader:
        return reader.read_next_batch()


def without_empty(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without columns that are entirely null; `conform` restores them.

    Several jobs write parts of wide tables: the names of a hundred null columns would be most of the bytes.
    """
    kept = [name for name, column in zip(rows.schema.names, rows.columns, strict=True) if _has_value(column)]
    return rows if len(kept) == rows.num_columns else rows.select(kept)


def _has_value(column: pa.Array) -> bool:
    return not len(column) or column.null_count < len(column)


def conform(rows: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    """Rows of another schema version in the current schema; missing columns are null.

    Columns that only the rows have, such as those of removed user beans, follow the others.
    """
    if rows.schema.equals(table.schema):
        return rows
    have = set(rows.schema.names)
    more = [field for field in rows.schema if field.name not in table.schema.names]
    arrays = [
        rows.column(field.name).cast(field.type) if field.name in have else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    arrays += [rows.column(field.name) for field in more]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*table.schema, *more]))
