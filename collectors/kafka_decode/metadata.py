"""Decodes Metadata responses from bytes directly to columns.

The partitions of a healthy topic have records of one size, which numpy reads at once; if replicas are out of sync the
sizes differ and the records are read one by one.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from collectors.kafka_decode.reader import FEW_RECORDS, CodeColumn, IntColumn, WireReader, concatenate

_PARTITION_HEAD = struct.Struct(">hiii")


@dataclass(frozen=True, slots=True)
class MetadataBroker:
    """A broker in the metadata."""

    node: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Metadata:
    """Brokers, topics and partitions.

    Partition rows are ordered by topic, then by partition number, so row `first_row[topic] + partition` is that
    partition. `missing_row` and `missing_broker` pair rows with the replicas that are not in sync.
    """

    cluster_id: str | None
    brokers: list[MetadataBroker]
    topics: list[str]
    topic_ids: list[str]
    topic_errors: dict[str, int]
    first_row: IntColumn
    topic_code: CodeColumn
    partition: CodeColumn
    leader: CodeColumn
    replicas: CodeColumn
    in_sync: CodeColumn
    preferred: CodeColumn
    replica_broker: CodeColumn
    missing_row: IntColumn
    missing_broker: CodeColumn


def decode_metadata(body: bytes) -> Metadata:
    """Decode a Metadata response, versions 10 to 12."""
    reader = WireReader(body)
    reader.number(4)  # throttle time
    brokers = []
    for _ in range(reader.length()):
        broker = MetadataBroker(reader.number(4), reader.name().decode(), reader.number(4), reader.text())
        reader.skip_tags()
        brokers.append(broker)
    cluster_id = reader.text()
    reader.number(4)  # controller: a random broker on KRaft
    topics: list[str] = []
    topic_ids: list[str] = []
    errors: dict[str, int] = {}
    parts: list[_TopicPartitions] = []
    for _ in range(reader.length()):
        error = reader.number(2)
        name = reader.name().decode()
        topic_id = reader.raw(16)
        reader.number(1)  # internal
        partitions = _metadata_records(reader, reader.length())
        reader.number(4)  # authorized operations
        reader.skip_tags()
        if error:
            errors[name] = error
        topics.append(name)
        topic_ids.append(base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode())
        parts.append(partitions)
    return _metadata(cluster_id, brokers, topics, topic_ids, errors, parts)


@dataclass(frozen=True, slots=True)
class _TopicPartitions:
    """The partitions of one topic, sorted by number; `replicas` is flat, `missing` pairs position and broker."""

    partition: Any
    leader: Any
    replica_count: Any
    in_sync: Any
    preferred: Any
    replicas: Any
    missing: Sequence[tuple[int, int]]


@lru_cache(maxsize=256)
def _partition_record(replicas: int, in_sync: int, offline: int) -> np.dtype[Any]:
    return np.dtype(
        [
            ("error", ">i2"),
            ("partition", ">i4"),
            ("leader", ">i4"),
            ("epoch", ">i4"),
            ("replica_count", "u1"),
            ("replicas", ">i4", (replicas,)),
            ("in_sync_count", "u1"),
            ("in_sync", ">i4", (in_sync,)),
            ("offline_count", "u1"),
            ("offline", ">i4", (offline,)),
            ("tags", "u1"),
        ]
    )


def _metadata_records(reader: WireReader, count: int) -> _TopicPartitions:
    if count > FEW_RECORDS:
        view = _uniform_partitions(reader, count)
        if view is not None:
            if (np.diff(view["partition"]) < 0).any():
                view = view[np.argsort(view["partition"])]
            replicas = view["replicas"].shape[1]
            preferred = view["replicas"][:, 0] if replicas else np.full(count, -1)
            return _TopicPartitions(
                view["partition"],
                view["leader"],
                np.full(count, replicas),
                np.full(count, view["in_sync"].shape[1]),
                preferred,
                view["replicas"].ravel(),
                (),
            )
    rows = []
    for _ in range(count):
        _error, partition, leader, _epoch = _PARTITION_HEAD.unpack_from(reader.data, reader.pos)
        reader.pos += _PARTITION_HEAD.size
        replica_list, in_sync, _offline = reader.numbers(), reader.numbers(), reader.numbers()
        reader.skip_tags()
        rows.append((partition, leader, replica_list, in_sync))
    rows.sort(key=lambda row: row[0])
    return _TopicPartitions(
        [row[0] for row in rows],
        [row[1] for row in rows],
        [len(row[2]) for row in rows],
        [len(row[3]) for row in rows],
        [row[2][0] if row[2] else -1 for row in rows],
        [replica for row in rows for replica in row[2]],
        [
            (position, replica)
            for position, row in enumerate(rows)
            if len(row[3]) < len(row[2])
            for replica in row[2]
            if replica not in row[3]
        ],
    )


def _uniform_partitions(reader: WireReader, count: int) -> npt.NDArray[Any] | None:
    """The topic's records if all have as many replicas as the first, and all replicas are in sync; else None."""
    at = reader.pos + _PARTITION_HEAD.size
    replica_count = reader.data[at]
    at += 1 + 4 * max(replica_count - 1, 0)
    if replica_count >= 0x80 or reader.data[at] != replica_count:
        return None
    at += 1 + 4 * max(replica_count - 1, 0)
    offline_count = reader.data[at]
    if offline_count >= 0x80:
        return None
    dtype = _partition_record(max(replica_count - 1, 0), max(replica_count - 1, 0), max(offline_count - 1, 0))
    view = reader.view(dtype, count)
    if (
        view is None
        or (view["replica_count"] != replica_count).any()
        or (view["in_sync_count"] != replica_count).any()
        or (view["offline_count"] != offline_count).any()
        or view["tags"].any()
    ):
        return None
    reader.pos += count * dtype.itemsize
    return view


def _metadata(
    cluster_id: str | None,
    brokers: list[MetadataBroker],
    topics: list[str],
    topic_ids: list[str],
    errors: dict[str, int],
    parts: list[_TopicPartitions],
) -> Metadata:
    counts = np.array([len(part.partition) for part in parts], dtype=np.int64)
    first_row = np.concatenate(([0], np.cumsum(counts)[:-1])) if parts else np.zeros(0, np.int64)
    replicas = concatenate([(part.replica_count,) for part in parts], 0, np.int32)
    missing = [
        (int(first) + position, broker)
        for first, part in zip(first_row, parts, strict=True)
        for position, broker in part.missing
    ]
    return Metadata(
        cluster_id,
        brokers,
        topics,
        topic_ids,
        errors,
        first_row.astype(np.int64),
        np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        concatenate([(part.partition,) for part in parts], 0, np.int32),
        concatenate([(part.leader,) for part in parts], 0, np.int32),
        replicas,
        concatenate([(part.in_sync,) for part in parts], 0, np.int32),
        concatenate([(part.preferred,) for part in parts], 0, np.int32),
        concatenate([(part.replicas,) for part in parts], 0, np.int32),
        np.array([row for row, _ in missing], dtype=np.int64),
        np.array([broker for _, broker in missing], dtype=np.int32),
    )
