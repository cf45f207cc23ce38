"""Makes and records commits, and reads the offsets topic with a plain reader to compare."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_commits import KafkaCommits
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.protocols import Collected

OFFSETS_TOPIC = "__consumer_offsets"


class Commit(NamedTuple):
    """A row of `commit`; a deletion has no offset."""

    group: str
    topic: str
    partition: int
    offset: int | None
    time_ms: int
    order: int


class Made(NamedTuple):
    """A commit of a test, with the wall time before and after it."""

    group: str
    topic: str
    partition: int
    offset: int
    after_ms: int
    before_ms: int


def commits_of(collected: Collected, group: str | None = None) -> list[Commit]:
    """The rows of a run, of one group or all."""
    rows = [Commit(*row.values()) for batch in collected.batches for row in batch.rows.to_pylist()]
    return [row for row in rows if group in (None, row.group)]


def more_came(commits: KafkaCommits, found: list[Commit], count: int) -> bool:
    """Collect again; returns whether there are `count` rows in total."""
    found += commits_of(commits.collect(now_ms()))
    return len(found) >= count


def now_ms() -> int:
    """Wall time."""
    return time.time_ns() // 1_000_000


@contextmanager
def tailing(kafka: KafkaCluster, **options: Any) -> Iterator[KafkaCommits]:
    """A collector with its own connections, assembled like the agent does."""
    connection = KafkaConnection(ConnectionOptions(tuple(kafka.bootstrap.split(","))))
    try:
        # Runs are short in a healthy cluster, except the first one on a busy machine, which connects.
        yield KafkaCommits("east", connection, deadline_seconds=20, **options)
    finally:
        connection.close()


class Committer:
    """A consumer that assigns itself a topic and commits given offsets."""

    def __init__(self, kafka: KafkaCluster, group: str, topic: str) -> None:
        self._group, self._topic = group, topic
        self._consumer = KafkaConsumer(
            bootstrap_servers=kafka.bootstrap.split(","), group_id=group, enable_auto_commit=False
        )
        self.made: list[Made] = []

    def commit(self, offsets: Mapping[int, int], note: str = "") -> None:
        """Commit offsets of some partitions in one request."""
        wanted = {TopicPartition(self._topic, p): OffsetAndMetadata(offset, note, -1) for p, offset in offsets.items()}
        after_ms = now_ms()
        self._consumer.commit(wanted, timeout_ms=30_000)
        before_ms = now_ms()
        self.made += [Made(self._group, self._topic, p, offset, after_ms, before_ms) for p, offset in offsets.items()]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close(autocommit=False)


@contextmanager
def committing(kafka: KafkaCluster, group: str, topic: str) -> Iterator[Committer]:
    """A Committer for the duration of a `with` block."""
    committer = Committer(kafka, group, topic)
    try:
        yield committer
    finally:
        committer.close()


@contextmanager
def transactions(kafka: KafkaCluster, name: str) -> Iterator[Any]:
    """A producer whose transactions commit offsets."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap.split(","), transactional_id=name, acks="all")
    try:
        producer.init_transactions()
        yield producer
    finally:
        producer.close(timeout=5)


def assert_as_made(found: list[Commit], made: list[Made]) -> None:
    """Assert the same commits in the same order, each within the time it was made."""
    assert [row[:4] for row in found] == [one[:4] for one in made]
    assert [row.order for row in found] == sorted({row.order for row in found})
    for row, one in zip(found, made, strict=True):
        assert one.after_ms <= row.time_ms <= one.before_ms


def offsets_partition(group: str, partitions: int = 6) -> int:
    """The partition of a group in the offsets topic, by Java's hash of its name; test clusters have six."""
    value = 0
    for unit in struct.unpack(f">{len(group.encode('utf-16-be')) // 2}H", group.encode("utf-16-be")):
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return abs(signed) % partitions


def read_plainly(kafka: KafkaCluster, *, check_crcs: bool = True) -> tuple[list[Commit], list[bytes]]:
    """All commits and the keys of deleted groups, read by kafka-python's consumer and decoded one by one."""
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap.split(","),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        check_crcs=check_crcs,
        max_poll_records=10_000,
    )
    places = [TopicPartition(OFFSETS_TOPIC, number) for number in consumer.partitions_for_topic(OFFSETS_TOPIC) or ()]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    commits: list[Commit] = []
    deleted_groups: list[bytes] = []
    while any(consumer.position(place) < ends[place] for place in places):
        for found in consumer.poll(timeout_ms=1000, max_records=10_000).values():
            for record in found:
                row = decode_plainly(record.key, record.value, record.timestamp, record.offset)
                if row is not None:
                    commits.append(row)
                elif record.value is None:
                    deleted_groups.append(record.key)
    consumer.close()
    return commits, deleted_groups


def decode_plainly(key: bytes, value: bytes | None, time_ms: int, order: int) -> Commit | None:
    """A committed offset as a row; None for other records."""
    (kind,) = struct.unpack_from(">h", key)
    if kind not in (0, 1):
        return None
    (size,) = struct.unpack_from(">h", key, 2)
    at = 4 + size
    group = key[4:at].decode()
    (size,) = struct.unpack_from(">h", key, at)
    topic = key[at + 2 : at + 2 + size].decode()
    (partition,) = struct.unpack_from(">i", key, at + 2 + size)
    if value is None:
        return Commit(group, topic, partition, None, time_ms, order)
    version, offset = struct.unpack_from(">hq", value)
    at = 14 if version >= 3 else 10
    if version < 4:
        (size,) = struct.unpack_from(">h", value, at)
        at += 2 + size
    else:
        size, shift = value[at] & 0x7F, 7
        while value[at] >= 0x80:
            at += 1
            size |= (value[at] & 0x7F) << shift
            shift += 7
        at += size  # length + 1, and one byte for the length
    (commit_ms,) = struct.unpack_from(">q", value, at)
    return Commit(group, topic, partition, offset, commit_ms, order)
