"""Decodes the headers of record batches from fetched bytes to columns.

Python only steps from batch to batch; numpy reads all headers at once. Checksums are not verified: brokers do that when
they write, and in Python it would cost more than all other decoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.reader import CodeColumn, IntColumn

_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_delta", ">i4"),
        ("first_ms", ">i8"),
        ("max_ms", ">i8"),
        ("producer", ">i8"),
        ("producer_epoch", ">i2"),
        ("sequence", ">i4"),
        ("records", ">i4"),
    ]
)
_KEPT = ("base_offset", "attributes", "first_ms", "max_ms", "producer", "records")
_SIZED = 12  # bytes of base offset and length, which the length does not count
_MAGIC_AT, _LAST_DELTA_AT = 16, 23
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class BatchScan:
    """The positions of one partition's batches. `next_offset` is None if no batch is complete."""

    starts: list[int]
    next_offset: int | None
    damaged: list[str]
    stuck: bool = False
    """The bytes are invalid from some position on, so the next batch cannot be found."""


@dataclass(frozen=True, slots=True)
class BatchHeaders:
    """Headers of batches as columns; the records of each batch are between `start` and `end`."""

    partition: CodeColumn
    base_offset: IntColumn
    attributes: IntColumn
    first_ms: IntColumn
    max_ms: IntColumn
    producer: IntColumn
    start: IntColumn
    end: IntColumn
    records: IntColumn

    def __len__(self) -> int:
        return len(self.start)

    @property
    def codec(self) -> IntColumn:
        """The compression codec of each batch; 0 for none."""
        return self.attributes & _CODEC

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        """Which batches hold a transaction marker instead of data."""
        return (self.attributes & _CONTROL).astype(bool)

    @property
    def is_transactional(self) -> npt.NDArray[np.bool_]:
        """Which batches are part of a transaction."""
        return (self.attributes & _TRANSACTIONAL).astype(bool)

    @property
    def has_broker_time(self) -> npt.NDArray[np.bool_]:
        """Which batches have log append time: `max_ms` for all their records."""
        return (self.attributes & _LOG_APPEND_TIME).astype(bool)

    def position(self, batch: int, offset: int | None = None) -> str:
        """Partition and offset as text for failures: `4@1200`."""
        return f"{self.partition[batch]}@{self.base_offset[batch] if offset is None else offset}"


def scan_batches(data: bytes, start: int, end: int, partition: int) -> BatchScan:
    """Find the complete batches between two positions; brokers truncate the last one if a response is full."""
    starts: list[int] = []
    damaged: list[str] = []
    next_offset = -1
    at, stuck = start, False
    while end - at > _MAGIC_AT:
        size = _SIZED + _LENGTH.unpack_from(data, at + 8)[0]
        is_new = data[at + _MAGIC_AT] >= 2
        if size < (_HEADER.itemsize if is_new else _SIZED + 1):
            damaged.append(f"{partition}@{_offset(data, at)}")
            stuck = True
            break
        if at + size > end:
            break
        if is_new:
            starts.append(at)
        else:
            next_offset = _offset(data, at) + 1
            damaged.append(f"{partition}@{next_offset - 1} (a format older than Kafka 0.11)")
        at += size
    if starts:
        (last_delta,) = _LENGTH.unpack_from(data, starts[-1] + _LAST_DELTA_AT)
        next_offset = max(next_offset, _offset(data, starts[-1]) + last_delta + 1)
    return BatchScan(starts, None if next_offset < 0 else next_offset, damaged, stuck)


def _offset(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def read_batch_headers(data: bytes, starts: Sequence[int], partition: CodeColumn) -> BatchHeaders:
    """Read the headers of the batches at these positions, with the partition of each."""
    at = np.array(starts, np.int64)
    octets = np.frombuffer(data or b"\0", np.uint8)
    headers = octets.take(at[:, None] + np.arange(_HEADER.itemsize), mode="clip").view(_HEADER).reshape(-1)
    return BatchHeaders(
        partition=partition,
        start=at + _HEADER.itemsize,
        end=at + _SIZED + headers["length"],
        **{name: headers[name].astype(np.int64) for name in _KEPT},
    )
