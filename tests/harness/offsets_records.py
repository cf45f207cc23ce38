"""Encodes records of the offsets topic: keys, values and batches, in every version of Kafka."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from kafka.record.default_records import DefaultRecordBatch

from collectors.kafka_decode.record_batches import BatchHeaders, read_batch_headers, scan_batches

NO_PRODUCER = -1
TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 0x10, 0x20, 0x08

Record = tuple[bytes | None, bytes | None]


def offset_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    """The key of a committed offset."""
    return struct.pack(">h", version) + _string(group) + _string(topic) + struct.pack(">i", partition)


def group_key(group: str, kind: int = 2) -> bytes:
    """The key of a group: 2 classic, 3 consumer (KIP-848), 17 streams."""
    return struct.pack(">h", kind) + _string(group)


def offset_value(
    version: int, offset: int, time_ms: int, note: str = "", tagged: Sequence[tuple[int, bytes]] = ()
) -> bytes:
    """The value of a committed offset; `tagged` fields exist from version 4 on."""
    parts = [struct.pack(">hq", version, offset)]
    if version >= 3:
        parts.append(struct.pack(">i", 5))  # leader epoch
    raw = note.encode()
    parts.append(uvarint(len(raw) + 1) + raw if version >= 4 else struct.pack(">h", len(raw)) + raw)
    parts.append(struct.pack(">q", time_ms))
    if version == 1:
        parts.append(struct.pack(">q", time_ms + 86_400_000))  # expires
    if version >= 4:
        parts.append(uvarint(len(tagged)))
        parts += [uvarint(tag) + uvarint(len(data)) + data for tag, data in tagged]
    return b"".join(parts)


def batch(
    base_offset: int,
    records: Sequence[Record],
    *,
    time_ms: int = 1_000,
    producer: int = NO_PRODUCER,
    attributes: int = 0,
    packed: bytes | None = None,
) -> bytes:
    """A batch of records, one millisecond apart; `packed` replaces the records by compressed ones."""
    body = b"".join(record(number, number, *one) for number, one in enumerate(records)) if packed is None else packed
    last = max(len(records) - 1, 0)
    head = struct.pack(">hiqqqhii", attributes, last, time_ms, time_ms + last, producer, 0, -1, len(records))
    rest = struct.pack(">ibI", 0, 2, 0) + head + body
    return struct.pack(">qi", base_offset, len(rest)) + rest


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """The control batch that ends a transaction."""
    end = (struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 7))
    return batch(offset, [end], producer=producer, attributes=TRANSACTIONAL | CONTROL)


def record(offset_delta: int, time_delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """One record of a batch."""
    parts = [b"\0", varint(time_delta), varint(offset_delta)]
    parts += [varint(-1) if part is None else varint(len(part)) + part for part in (key, value)]
    body = b"".join(parts) + varint(0)  # no headers
    return varint(len(body)) + body


def heads_of(data: bytes, partition: int = 0) -> BatchHeaders:
    """The batches of a partition, all of them."""
    starts = scan_batches(data, 0, len(data), partition).starts
    return read_batch_headers(data, starts, np.full(len(starts), partition, np.int32))


def records_in(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The records of one batch as kafka-python decodes them: offset, time, key and value."""
    return [(one.offset, one.timestamp, one.key, one.value) for one in DefaultRecordBatch(data)]


def varint(value: int) -> bytes:
    """A zigzag varint."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits per byte, low bits first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw
