"""Parts of a checkpoint: their names, and batches packed into the bytes of one part and back."""

from __future__ import annotations

import json
from collections.abc import Iterable

from lagwatch.batch import Batch, decode_rows, encode_rows


def cluster_part(cluster: str) -> str:
    """The name of the part that holds a cluster; others than clusters save theirs under other names."""
    return f"cluster:{cluster}"


def pack(batches: Iterable[Batch]) -> bytes:
    """The batches with what names them: a line of JSON, then their rows one after the other."""
    heads, payloads = [], []
    for batch in batches:  # one at a time: they may be made on the way
        payloads.append(encode_rows(batch.rows))
        heads.append([*batch.key, batch.at_ms, batch.schema_version, len(payloads[-1])])
    return json.dumps(heads).encode() + b"\n" + b"".join(payloads)


def unpack(blob: bytes) -> list[Batch]:
    """What `pack` packed."""
    head, _, rest = blob.partition(b"\n")
    batches = []
    for table, cluster, source, at_ms, schema_version, size in json.loads(head):
        batches.append(Batch(table, cluster, at_ms, decode_rows(rest[:size]), schema_version, source))
        rest = rest[size:]
    return batches
