"""Names the parts of a checkpoint, and packs the batches of one part into bytes and back."""

from __future__ import annotations

from collections.abc import Iterable

from lagwatch.batch import Batch, decode_rows, encode_rows
from lagwatch.blobs import pack_blobs, unpack_blobs


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
    """The inverse of `pack`."""
    heads, read = unpack_blobs(blob)
    return [
        Batch(table, cluster, at_ms, decode_rows(read(size)), schema_version, source)
        for table, cluster, source, at_ms, schema_version, size in heads
    ]
