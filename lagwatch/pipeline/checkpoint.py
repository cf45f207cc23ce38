"""Names the parts of a checkpoint, and packs the batches of one part into bytes and back."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lagwatch.batch import Batch, conform, decode_rows, encode_rows
from lagwatch.blobs import pack_blobs, unpack_blobs
from lagwatch.catalogue import BUILT_IN


def cluster_part(cluster: str) -> str:
    """The name of the part that holds a cluster's state; the prefix leaves room for parts that are not clusters."""
    return f"cluster:{cluster}"


def pack(batches: Iterable[Batch]) -> bytes:
    """The batches as bytes."""
    heads, payloads = [], []
    for batch in batches:  # one at a time: a generator may build them
        payloads.append(encode_rows(batch.rows))
        heads.append([*batch.key, batch.at_ms, batch.schema_version, len(payloads[-1])])
    return pack_blobs(heads, payloads)


def unpack(blob: bytes) -> list[Batch]:
    """The inverse of `pack`; tables have the columns of today's catalogue."""
    heads, read = unpack_blobs(blob)
    return [
        Batch(table, cluster, at_ms, _current(table, decode_rows(read(size))), schema_version, source)
        for table, cluster, source, at_ms, schema_version, size in heads
    ]


def _current(table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    return conform(rows, BUILT_IN[table]) if table in BUILT_IN else rows
