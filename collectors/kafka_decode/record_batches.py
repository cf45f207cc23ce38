"""Kafka's log format: fetched bytes enter; the heads of all batches in them leave, as columns.

Python only steps from batch to batch; numpy reads all heads at once. Checksums are not computed: brokers do that when
they write, and in Python it would cost more than all the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.reader import CodeColumn, IntColumn

_HEAD = np.dtype(
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
_SIZED = 12  # of the head: offset and length come before what the length counts
_MAGIC_AT, _LAST_DELTA_AT = 16, 23
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Walked:
    """Where the batches of one partition begin. `next_offset` is None when there is no whole one."""

    places: list[int]
    next_offset: int | None
    damaged: list[str]
    stuck: bool = False
    """The bytes make no sense from some point on, so that it is not known where the next batch begins."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Heads of batches; the records of each are between `start` and `end`."""

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
        """How the records are compressed; 0 where they are not."""
        return self.attributes & _CODEC

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        """Which hold the end of a transaction instead of data."""
        return (self.attributes & _CONTROL).astype(bool)

    @property
    def is_transactional(self) -> npt.NDArray[np.bool_]:
        """Which count only once their transaction is committed."""
        return (self.attributes & _TRANSACTIONAL).astype(bool)

    @property
    def has_broker_time(self) -> npt.NDArray[np.bool_]:
        """Whose records all have the time of their arrival, `max_ms`."""
        return (self.attributes & _LOG_APPEND_TIME).astype(bool)

    def place(self, batch: int, offset: int | None = None) -> str:
        """A partition and an offset in it, as they are told: `4@1200`."""
        return f"{self.partition[batch]}@{self.base_offset[batch] if offset is None else offset}"


def walk_batches(data: bytes, start: int, end: int, partition: int) -> Walked:
    """The whole batches between two positions; brokers cut off the last one where an answer is full."""
    places: list[int] = []
    damaged: list[str] = []
    next_offset = -1
    at, stuck = start, False
    while end - at > _MAGIC_AT:
        size = _SIZED + _LENGTH.unpack_from(data, at + 8)[0]
        is_new = data[at + _MAGIC_AT] >= 2
        if size < (_HEAD.itemsize if is_new else _SIZED + 1):
            damaged.append(f"{partition}@{_offset(data, at)}")
            stuck = True
            break
        if at + size > end:
            break
        if is_new:
            places.append(at)
        else:
            next_offset = _offset(data, at) + 1
            damaged.append(f"{partition}@{next_offset - 1} (a format older than Kafka 0.11)")
        at += size
    if places:
        (last_delta,) = _LENGTH.unpack_from(data, places[-1] + _LAST_DELTA_AT)
        next_offset = max(next_offset, _offset(data, places[-1]) + last_delta + 1)
    return Walked(places, None if next_offset < 0 else next_offset, damaged, stuck)


def _offset(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def read_heads(data: bytes, places: Sequence[int], partition: CodeColumn) -> Batches:
    """The heads of the batches that begin at these places, each in its partition."""
    at = np.array(places, np.int64)
    octets = np.frombuffer(data or b"\0", np.uint8)
    heads = octets.take(at[:, None] + np.arange(_HEAD.itemsize), mode="clip").view(_HEAD).reshape(-1)
    return Batches(
        partition=partition,
        start=at + _HEAD.itemsize,
        end=at + _SIZED + heads["length"],
        **{name: heads[name].astype(np.int64) for name in _KEPT},
    )
