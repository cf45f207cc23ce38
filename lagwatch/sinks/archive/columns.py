"""Defines the archive's columns: Parquet types and encodings, the sort order, and which rows are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lagwatch.catalogue import EVENT, Kind, Table

AT = "at"
Keys = npt.NDArray[np.int64]
_TEXT = Kind.TEXT.arrow
_LONG_SERIES = 300  # rows per series in one file from which delta encoding pays off; measured, see docs/archive.md
_LARGEST = 2**62


def archive_schema(table: Table) -> pa.Schema:
    """The columns of a file as readers see them; `cluster` and `day` are in the folder names."""
    fields = [field.with_type(pa.string()) if field.type == _TEXT else field for field in working_schema(table)]
    return pa.schema(fields)


def working_schema(table: Table) -> pa.Schema:
    """The columns in memory: texts are dictionary-encoded."""
    return pa.schema([pa.field(AT, pa.timestamp("ms", "UTC"), nullable=False), *table.schema])


def joined(schema: pa.Schema, found: pa.Schema) -> pa.Schema:
    """The schema, followed by the columns of `found` that it does not have.

    Keeps the data of columns that are no longer in the catalogue, such as those of a removed user bean.
    """
    known = set(schema.names)
    more = [
        field.with_type(_TEXT) if pa.types.is_string(field.type) else field
        for field in found
        if field.name not in known
    ]
    return pa.schema([*schema, *more]) if more else schema


def tag_names(table: Table) -> list[str]:
    """The tags that are columns, in sort order."""
    return [tag.name for tag in table.tags if tag.name != "cluster"]


def identity(table: Table) -> list[str]:
    """The columns that identify a row among those of one time.

    These are the tags; for events also the texts, since two events of one kind may occur in one poll.
    """
    texts = [field.name for field in table.fields if field.kind is Kind.TEXT] if table.name == EVENT.name else []
    return [*tag_names(table), *texts]


def with_time(rows: pa.RecordBatch, at_ms: int) -> pa.RecordBatch:
    """The rows of a batch with their time as the first column."""
    times = pa.array(np.full(rows.num_rows, at_ms), pa.timestamp("ms", "UTC"))
    schema = pa.schema([pa.field(AT, times.type, nullable=False), *rows.schema])
    return pa.RecordBatch.from_arrays([times, *rows.columns], schema=schema)


def conformed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows in another schema; columns they do not have are null."""
    if rows.schema.equals(schema):
        return rows
    have = set(rows.schema.names)
    arrays = [
        _cast(rows.column(field.name), field.type) if field.name in have else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.dictionary_encode(column) if wanted == _TEXT and column.type != _TEXT else column.cast(wanted)


def compacted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with dictionaries reduced to the values in use."""
    arrays = [c.dictionary_decode().dictionary_encode() if c.type == _TEXT else c for c in rows.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def times_of(rows: pa.RecordBatch) -> Keys:
    """The times of rows in milliseconds."""
    times: Keys = rows.column(AT).cast(pa.int64()).to_numpy()
    return times


def keys_of(rows: pa.RecordBatch, names: Sequence[str]) -> Keys:
    """One integer per row that sorts the rows by the named columns: texts by their bytes, nulls first."""
    keys, size = np.zeros(rows.num_rows, np.int64), 1
    for name in names if rows.num_rows else ():
        ranks, count = _ranks(rows.column(name))
        if size > _LARGEST // count:
            found, keys = np.unique(keys, return_inverse=True)
            size = len(found)
        keys, size = keys * count + ranks, size * count
    return keys


def _ranks(column: pa.Array) -> tuple[Keys, int]:
    if column.type == _TEXT:
        # Equal texts get the same rank: a dictionary may hold a text twice.
        order = np.append(pc.rank(column.dictionary, tiebreaker="dense").to_numpy().astype(np.int64), 0)
        codes = column.indices.fill_null(len(order) - 1).to_numpy()
        return order[codes], len(order)
    numbers = column.cast(pa.int64()).to_numpy()
    least = int(numbers.min())
    return numbers - least, int(numbers.max()) - least + 1


def one_row_each(rows: pa.RecordBatch, keys: Keys) -> pa.RecordBatch:
    """Rows sorted by `keys`, with the rows of one key merged: the last value of each field that is not null.

    So a repeated row changes nothing, and rows that two jobs wrote in the same millisecond are both kept.
    """
    starts = np.flatnonzero(np.append(np.ones(1, bool), keys[1:] != keys[:-1]))
    if not rows.num_rows or len(starts) == rows.num_rows:
        return rows
    positions = np.arange(rows.num_rows)
    arrays = []
    for column in rows.columns:
        known = column.is_valid().to_numpy(zero_copy_only=False)
        last = np.maximum.reduceat(np.where(known, positions, -1), starts)
        arrays.append(column.take(pa.array(last, mask=last < 0)))
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def encodings(schema: pa.Schema, table: Table, rows_a_series: float) -> dict[str, Any]:
    """The options of a ParquetWriter for these columns.

    Times, tags and texts repeat, so they get dictionaries. Delta encoding loses at every change of series, so it pays
    off for long series only; for short ones zstd compresses plain numbers better.
    """
    repeating = {AT, *tag_names(table)} | {field.name for field in schema if field.type == _TEXT}
    long = rows_a_series >= _LONG_SERIES
    if not long:
        repeating |= {field.name for field in schema if pa.types.is_float32(field.type)}
    numbers = [field.name for field in schema if pa.types.is_integer(field.type) and field.name not in repeating]
    return {
        "use_dictionary": sorted(repeating),
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED" if long else "PLAIN"),
    }
