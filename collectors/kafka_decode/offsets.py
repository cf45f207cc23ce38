"""Decodes OffsetFetch, ListOffsets and DescribeLogDirs responses from bytes directly to columns, and encodes ListOffsets.

These responses hold one small record for each partition. Nearly always all records have one size, so numpy reads them at
once; if sizes differ (a commit with metadata) they are read one by one. 87,000 committed offsets take milliseconds
instead of a third of a second as objects. A test compares each decoder with kafka-python's own on random responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.reader import CodeColumn, IntColumn, NameCodes, WireReader, expand_runs

_COMMITTED_OFFSET = np.dtype(
    [("partition", ">i4"), ("offset", ">i8"), ("epoch", ">i4"), ("metadata", "u1"), ("error", ">i2"), ("tags", "u1")]
)
_LISTED_OFFSET = np.dtype(
    [("partition", ">i4"), ("error", ">i2"), ("time", ">i8"), ("offset", ">i8"), ("epoch", ">i4"), ("tags", "u1")]
)
_REPLICA = np.dtype([("partition", ">i4"), ("size", ">i8"), ("lag", ">i8"), ("future", "u1"), ("tags", "u1")])
_REQUESTED_PARTITION = np.dtype([("partition", ">i4"), ("epoch", ">i4"), ("time", ">i8"), ("tags", "u1")])


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """Committed offsets of many groups. `offset` is -1 if a group has none; `group_errors` holds non-zero codes."""

    groups: list[str]
    group_errors: dict[str, int]
    topics: list[str]
    group_code: CodeColumn
    topic_code: CodeColumn
    partition: CodeColumn
    offset: IntColumn
    error: CodeColumn


@dataclass(frozen=True, slots=True)
class ListedOffsets:
    """One offset of each of many partitions; `time` is its record's timestamp if the request was by time, else -1."""

    topics: list[str]
    topic_code: CodeColumn
    partition: CodeColumn
    offset: IntColumn
    time: IntColumn
    error: CodeColumn


@dataclass(frozen=True, slots=True)
class LogDirs:
    """Replicas on one broker, and its volumes, without replicas being moved between disks (`future`)."""

    error: int
    dir_errors: dict[str, int]
    total_bytes: int | None
    free_bytes: int | None
    topics: list[str]
    topic_code: CodeColumn
    partition: CodeColumn
    size: IntColumn


def decode_offset_fetch(body: bytes) -> CommittedOffsets:
    """Decode an OffsetFetch response, versions 8 and 9."""
    reader = WireReader(body)
    reader.number(4)  # throttle time
    groups: list[str] = []
    errors: dict[str, int] = {}
    topics = NameCodes()
    runs: list[tuple[int, int, int]] = []  # group, topic, records
    chunks: list[bytes] = []
    for _ in range(reader.length()):
        group = reader.name().decode()
        for _ in range(reader.length()):
            topic = topics.code(reader.name())
            count = reader.length()
            chunks.append(_committed_offset_records(reader, count))
            runs.append((len(groups), topic, count))
            reader.skip_tags()
        error = reader.number(2)
        reader.skip_tags()
        if error:
            errors[group] = error
        groups.append(group)
    group_code, topic_code = expand_runs(runs)
    records = np.frombuffer(b"".join(chunks), _COMMITTED_OFFSET)
    return CommittedOffsets(
        groups,
        errors,
        topics.names(),
        group_code,
        topic_code,
        records["partition"].astype(np.int32),
        records["offset"].astype(np.int64),
        records["error"].astype(np.int32),
    )


def _committed_offset_records(reader: WireReader, count: int) -> bytes:
    """A topic's records, each in the 20 bytes of _COMMITTED_OFFSET.

    A record without metadata and tags has exactly that size. If every record read at that stride has neither, the stride
    is right for all of them, from the first one on.
    """
    records = reader.peek(_COMMITTED_OFFSET, count)
    sizes = _bytes_at(records, _COMMITTED_OFFSET, "metadata")
    if sizes.count(0) + sizes.count(1) == count and _bytes_at(records, _COMMITTED_OFFSET, "tags").count(0) == count:
        reader.pos += len(records)
        return records
    plain = []
    for _ in range(count):
        head = reader.raw(16)  # partition, offset, epoch
        reader.name()  # the commit's metadata
        plain += [head, b"\0", reader.raw(2), b"\0"]
        reader.skip_tags()
    return b"".join(plain)


def decode_list_offsets(body: bytes) -> ListedOffsets:
    """Decode a ListOffsets response, versions 6 and later."""
    reader = WireReader(body)
    reader.number(4)  # throttle time
    topics = NameCodes()
    runs: list[tuple[int, int, int]] = []
    chunks: list[bytes] = []
    for _ in range(reader.length()):
        topic = topics.code(reader.name())
        count = reader.length()
        chunks.append(_tagged_records(reader, _LISTED_OFFSET, count))
        runs.append((0, topic, count))
        reader.skip_tags()
    records = np.frombuffer(b"".join(chunks), _LISTED_OFFSET)
    return ListedOffsets(
        topics.names(),
        expand_runs(runs)[1],
        records["partition"].astype(np.int32),
        records["offset"].astype(np.int64),
        records["time"].astype(np.int64),
        records["error"].astype(np.int32),
    )


def encode_list_offsets_topics(partitions: Mapping[str, npt.ArrayLike], timestamp: int | IntColumn) -> bytes:
    """Encode the topics of a ListOffsets request, versions 6 and later; one timestamp for all partitions or one for each."""
    numbers = [np.asarray(indexes) for indexes in partitions.values()]
    records = np.zeros(sum(map(len, numbers)), _REQUESTED_PARTITION)
    records["partition"] = np.concatenate(numbers) if numbers else 0
    records["epoch"] = -1  # any leader epoch
    records["time"] = timestamp
    data, at = records.tobytes(), 0
    parts = [_uvarint(len(numbers) + 1)]
    for topic, indexes in zip(partitions, numbers, strict=True):
        name, size = topic.encode(), len(indexes) * _REQUESTED_PARTITION.itemsize
        parts += [_uvarint(len(name) + 1), name, _uvarint(len(indexes) + 1), data[at : at + size], b"\0"]
        at += size
    return b"".join(parts)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_log_dirs(body: bytes, version: int) -> LogDirs:
    """Decode a DescribeLogDirs response, versions 3 to 5; volumes are in it from version 4 on (Kafka 3.3)."""
    reader = WireReader(body)
    reader.number(4)  # throttle time
    error = reader.number(2)
    topics = NameCodes()
    dir_errors: dict[str, int] = {}
    volumes: list[tuple[int, int]] = []
    runs: list[tuple[int, int, int]] = []
    chunks: list[bytes] = []
    for _ in range(reader.length()):
        dir_error = reader.number(2)
        folder = reader.name().decode()
        for _ in range(reader.length()):
            topic = topics.code(reader.name())
            count = reader.length()
            chunks.append(_tagged_records(reader, _REPLICA, count))
            runs.append((0, topic, count))
            reader.skip_tags()
        if version >= 4:  # Kafka 3.3
            volumes.append((reader.number(8), reader.number(8)))
        if version >= 5:
            reader.number(1)  # cordoned
        reader.skip_tags()
        if dir_error:
            dir_errors[folder] = dir_error
    records = np.frombuffer(b"".join(chunks), _REPLICA)
    in_place = records["future"] == 0
    has_volumes = bool(volumes) and all(total >= 0 and free >= 0 for total, free in volumes)
    return LogDirs(
        error,
        dir_errors,
        sum(total for total, _ in volumes) if has_volumes else None,
        sum(free for _, free in volumes) if has_volumes else None,
        topics.names(),
        expand_runs(runs)[1][in_place],
        records["partition"][in_place].astype(np.int32),
        records["size"][in_place].astype(np.int64),
    )


def _tagged_records(reader: WireReader, dtype: np.dtype[Any], count: int) -> bytes:
    """A topic's records of fixed size, without the tags at their end."""
    records = reader.peek(dtype, count)
    if _bytes_at(records, dtype, "tags").count(0) == count:
        reader.pos += len(records)
        return records
    plain = []
    for _ in range(count):
        plain += [reader.raw(dtype.itemsize - 1), b"\0"]
        reader.skip_tags()
    return b"".join(plain)


def _bytes_at(records: bytes, dtype: np.dtype[Any], name: str) -> bytes:
    """A one-byte field of all records."""
    return records[dtype.fields[name][1] :: dtype.itemsize] if dtype.fields else b""
