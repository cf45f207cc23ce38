"""Encodes a batch as one journal row and back, with a CRC over the payload and the identifying columns."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lagwatch.batch import Batch, conform, decode_rows, encode_rows, without_empty
from lagwatch.blobs import pack_blobs, unpack_blobs
from lagwatch.catalogue import BUILT_IN
from lagwatch.journal.records import Checkpoint

COLUMNS = "seq, poll, at_ms, table_name, cluster, source, schema_version, row_count, crc, payload"
_MAX_ROWS = 10_000_000  # more than any poll has: a damaged row count must not distort the count of lost rows


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch ready to insert; only its poll number is missing."""

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
    """Compress a batch and compute its CRC. Needs no lock: this is most of the cost of an append.

    Raises on values the file cannot store, so that no such batch is ever queued.
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
    """A journal row whose CRC does not match, or whose payload is not an Arrow stream."""

    seq: Any
    row_count: int


def decode_batch(row: tuple[Any, ...]) -> Batch | CorruptRow:
    """The batch of one row of COLUMNS. Never raises: on a failing disk any column may hold anything."""
    seq, poll, at_ms, table, cluster, source, schema_version, row_count, crc, payload = row
    try:
        key = _key(poll, at_ms, table, cluster, source, schema_version, row_count)
        if zlib.crc32(key, zlib.crc32(payload)) == crc:
            rows = decode_rows(payload)
            rows = conform(rows, BUILT_IN[table]) if table in BUILT_IN else rows
            return Batch(table, cluster, at_ms, rows, schema_version, source)
    except (struct.error, AttributeError, TypeError, ValueError, OSError, StopIteration, pa.ArrowException):
        pass
    plausible = isinstance(row_count, int) and 0 <= row_count <= _MAX_ROWS
    return CorruptRow(seq, row_count if plausible else 1)


def _key(
    poll: int, at_ms: int, table: str, cluster: str, source: str, schema_version: int, row_count: int
) -> bytes:  # fmt: skip
    return struct.pack("<qqqq", poll, at_ms, schema_version, row_count) + f"{table}\0{cluster}\0{source}".encode()


def encode_checkpoint(parts: Mapping[str, bytes]) -> bytes:
    """The parts as one body, headed by their names and lengths."""
    return pack_blobs({name: len(part) for name, part in parts.items()}, parts.values())


def checkpoint_crc(poll: int, at_ms: int, body: bytes) -> int:
    """The CRC of the body and of the poll and time it covers."""
    return zlib.crc32(struct.pack("<qq", poll, at_ms), zlib.crc32(body))


def decode_checkpoint(poll: Any, at_ms: Any, crc: Any, body: Any) -> Checkpoint | None:
    """The checkpoint; None if its CRC does not match."""
    try:
        if checkpoint_crc(poll, at_ms, body) != crc:
            return None
    except (struct.error, TypeError):
        return None
    lengths, read = unpack_blobs(body)
    return Checkpoint(poll, at_ms, {name: read(length) for name, length in lengths.items()})
