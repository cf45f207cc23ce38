"""One batch as one journal row, and back, with a CRC over the payload and the columns that say what it is."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lagwatch.batch import Batch, conform, decode_rows, encode_rows, without_empty
from lagwatch.catalogue import BUILT_IN
from lagwatch.journal.records import Checkpoint

COLUMNS = "seq, poll, at_ms, table_name, cluster, source, schema_version, row_count, crc, payload"
_MOST_ROWS = 10_000_000  # past any poll: a damaged row count must not spoil the count of rows lost


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch ready to be written: all that is left to add is its poll number."""

    at_ms: int
    table: str
    cluster: str
    source: str
    schema_version: int
    row_count: int
    payload: bytes
    payload_crc: int

    def parameters(self, poll: int) -> tuple[int | str | bytes, ...]:
        """The values of INSERT."""
        key = _key(poll, self.at_ms, self.table, self.cluster, self.source, self.schema_version, self.row_count)
        return (
            poll,
            self.at_ms,
            self.table,
            self.cluster,
            self.source,
            self.schema_version,
            self.row_count,
            len(self.payload),
            zlib.crc32(key, self.payload_crc),
            self.payload,
        )


INSERT = (
    "INSERT INTO batch (poll, at_ms, table_name, cluster, source, schema_version, row_count, bytes, crc, payload) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def encode_batch(batch: Batch) -> EncodedBatch:
    """Compress and sum. Done outside any lock: it is most of what an append costs.

    Raises on values the file could not take, so that no such batch ever waits to be written.
    """
    payload = encode_rows(without_empty(batch.rows))
    _key(0, batch.at_ms, batch.table, batch.cluster, batch.source, batch.schema_version, len(batch))
    return EncodedBatch(
        batch.at_ms,
        batch.table,
        batch.cluster,
        batch.source,
        batch.schema_version,
        len(batch),
        payload,
        zlib.crc32(payload),
    )


@dataclass(frozen=True, slots=True)
class CorruptRow:
    """A journal row whose CRC does not match, or that is no Arrow stream."""

    seq: Any
    row_count: int


def decode_batch(row: tuple[Any, ...]) -> Batch | CorruptRow:
    """The batch of one row of COLUMNS. Never raises: any column may hold anything when the disk is bad."""
    seq, poll, at_ms, table, cluster, source, schema_version, row_count, crc, payload = row
    try:
        key = _key(poll, at_ms, table, cluster, source, schema_version, row_count)
        if zlib.crc32(key, zlib.crc32(payload)) == crc:
            rows = decode_rows(payload)
            rows = conform(rows, BUILT_IN[table]) if table in BUILT_IN else rows
            return Batch(table, cluster, at_ms, rows, schema_version, source)
    except (struct.error, AttributeError, TypeError, ValueError, OSError, StopIteration, pa.ArrowException):
        pass
    plausible = isinstance(row_count, int) and 0 <= row_count <= _MOST_ROWS
    return CorruptRow(seq, row_count if plausible else 1)


def _key(
    poll: int, at_ms: int, table: str, cluster: str, source: str, schema_version: int, row_count: int
) -> bytes:  # fmt: skip
    return struct.pack("<qqqq", poll, at_ms, schema_version, row_count) + f"{table}\0{cluster}\0{source}".encode()


def encode_checkpoint(parts: Mapping[str, bytes]) -> bytes:
    """The parts as one blob: a JSON line of names and lengths, then the bytes."""
    head = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    return b"".join((head, b"\n", *parts.values()))


def checkpoint_crc(poll: int, at_ms: int, body: bytes) -> int:
    """Over the body and what it says it covers."""
    return zlib.crc32(struct.pack("<qq", poll, at_ms), zlib.crc32(body))


def decode_checkpoint(poll: Any, at_ms: Any, crc: Any, body: Any) -> Checkpoint | None:
    """The checkpoint, or None where its CRC does not match."""
    try:
        if checkpoint_crc(poll, at_ms, body) != crc:
            return None
    except (struct.error, TypeError):
        return None
    head, _, rest = body.partition(b"\n")
    parts, start = {}, 0
    for name, length in json.loads(head).items():
        parts[name] = rest[start : start + length]
        start += length
    return Checkpoint(poll, at_ms, parts)
