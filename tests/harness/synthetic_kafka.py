"""A large synthetic cluster that responds to the Kafka job with encoded responses and changes between polls.

Topics and groups are created and deleted, some topics are recreated, commits and end offsets move. The number of
group-partitions stays the same.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from collectors.kafka_client.requests import RawResponse
from tests.harness.fake_connection import FakeConnection

BROKERS = (1, 2, 3)
_PARTITIONS = 50  # per topic
_COMMIT = np.dtype([("partition", ">i4"), ("offset", ">i8"), ("epoch", ">i4"), ("rest", "V4")])
_LISTED = np.dtype([("partition", ">i4"), ("error", ">i2"), ("time", ">i8"), ("offset", ">i8"), ("rest", "V5")])
_PLACED = np.dtype(
    [
        ("error", ">i2"),
        ("partition", ">i4"),
        ("leader", ">i4"),
        ("epoch", ">i4"),
        ("replicas", "u1"),
        ("replica", ">i4"),
        ("in_sync", "u1"),
        ("in_sync_replica", ">i4"),
        ("offline", "u1"),
        ("tags", "u1"),
    ]
)


class SyntheticCluster:
    """A cluster whose groups read two topics each, with coordinators by number; one in five has a member."""

    def __init__(self, topics: int, groups: int, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self._topics = [f"topic-{number}" for number in range(topics)]
        self._groups = [f"group-{number}" for number in range(groups)]
        self._ids = [self._random.bytes(16) for _ in range(topics)]
        self._named = topics + groups
        self._ends = self._random.integers(10**6, 10**9, (topics, _PARTITIONS))
        own = np.arange(groups) * topics // groups
        self._reads = np.stack((own, own ^ 1), axis=1)
        self._committed = self._ends[self._reads] - self._random.integers(0, 10**5, (groups, 2, _PARTITIONS))

    @property
    def group_partitions(self) -> int:
        return int(self._committed.size)

    @property
    def lag(self) -> int:
        """The total lag of all groups."""
        return int((self._ends[self._reads] - self._committed).sum())

    def change(self, *, topics: int, recreated: int, groups: int) -> None:
        """Change the cluster between two polls: replace topics and groups by new ones, and recreate topics."""
        self._ends += self._random.integers(0, 1000, self._ends.shape)
        behind = self._ends[self._reads] - self._committed
        self._committed += self._random.integers(0, np.minimum(behind, 1000) + 1)
        changed = self._random.choice(len(self._topics), topics + recreated, replace=False)
        for topic in changed.tolist():
            self._ids[topic] = self._random.bytes(16)
            self._ends[topic] = 0
            self._committed[self._reads == topic] = 0
        for topic in changed[:topics].tolist():
            self._topics[topic] = f"topic-{self._number()}"
        for group in self._random.choice(len(self._groups), groups, replace=False).tolist():
            self._groups[group] = f"group-{self._number()}"

    def _number(self) -> int:
        self._named += 1
        return self._named

    def answer(self, broker: int, request: Any) -> Any:
        """The response of a broker."""
        api = type(request).__name__.removeprefix("_Raw").removesuffix("Request")
        if api == "ListGroups":
            return SimpleNamespace(error_code=0, groups=[self._listed(group) for group in self._coordinated(broker)])
        if api == "DescribeGroups":
            return SimpleNamespace(
                groups=[self._described(group) for group in self._coordinated(broker) if _live(group)]
            )
        body = {"Metadata": self._metadata, "OffsetFetch": self._commits, "ListOffsets": self._offsets}[api]
        return RawResponse(struct.pack(">i", 0) + body(broker), 0)

    def _coordinated(self, broker: int) -> range:
        return range(broker - 1, len(self._groups), len(BROKERS))

    def _listed(self, group: int) -> Any:
        state = "Stable" if _live(group) else "Empty"
        name = self._groups[group]
        return SimpleNamespace(group_id=name, group_state=state, group_type="Classic", protocol_type="consumer")

    def _described(self, group: int) -> Any:
        numbers = struct.pack(f">i{_PARTITIONS}i", _PARTITIONS, *range(_PARTITIONS))
        names = [self._topics[topic].encode() for topic in self._reads[group]]
        topics = b"".join(struct.pack(">h", len(name)) + name + numbers for name in names)
        member = SimpleNamespace(
            member_id=f"{self._groups[group]}-member",
            client_id="client",
            client_host="/127.0.0.1",
            member_assignment=struct.pack(">hi", 0, len(names)) + topics + struct.pack(">i", -1),
        )
        return SimpleNamespace(error_code=0, group_id=self._groups[group], group_state="Stable", members=[member])

    def _metadata(self, _: int) -> bytes:
        brokers = [struct.pack(">i", b) + _text("127.0.0.1") + struct.pack(">i", 9000 + b) + b"\0\0" for b in BROKERS]
        topics = []
        for topic, (name, topic_id) in enumerate(zip(self._topics, self._ids, strict=True)):
            records = np.zeros(_PARTITIONS, _PLACED)
            records["partition"] = np.arange(_PARTITIONS)
            for column in ("leader", "replica", "in_sync_replica"):
                records[column] = _leader(topic, np.arange(_PARTITIONS))
            records["replicas"] = records["in_sync"] = 2
            records["offline"] = 1
            head = struct.pack(">h", 0) + _text(name) + topic_id + b"\0"
            topics.append(head + _length(_PARTITIONS) + records.tobytes() + struct.pack(">i", 0) + b"\0")
        return _array(brokers) + _text("synthetic") + struct.pack(">i", 1) + _array(topics) + b"\0"

    def _commits(self, broker: int) -> bytes:
        groups = []
        for group in self._coordinated(broker):
            records = np.zeros((2, _PARTITIONS), _COMMIT)
            records["partition"] = np.arange(_PARTITIONS)
            records["offset"] = self._committed[group]
            topics = [
                _text(self._topics[topic]) + _length(_PARTITIONS) + rows.tobytes() + b"\0"
                for topic, rows in zip(self._reads[group], records, strict=True)
            ]
            groups.append(_text(self._groups[group]) + _array(topics) + struct.pack(">h", 0) + b"\0")
        return _array(groups) + b"\0"

    def _offsets(self, broker: int) -> bytes:
        """Start, end and last stable offsets are equal here."""
        topics = []
        for topic, name in enumerate(self._topics):
            partitions = np.flatnonzero(_leader(topic, np.arange(_PARTITIONS)) == broker)
            records = np.zeros(len(partitions), _LISTED)
            records["partition"], records["offset"] = partitions, self._ends[topic, partitions]
            topics.append(_text(name) + _length(len(partitions)) + records.tobytes() + b"\0")
        return _array(topics) + b"\0"


def synthetic_connection(cluster: SyntheticCluster) -> FakeConnection:
    """Connections to a synthetic cluster, with immediate responses."""
    return FakeConnection(cluster.answer, BROKERS)


def _live(group: int) -> bool:
    return group % 5 == 0


def _leader(topic: int, partition: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (topic + partition) % len(BROKERS) + 1


def _length(count: int) -> bytes:
    value = count + 1
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7])


def _text(text: str) -> bytes:
    return _length(len(text)) + text.encode()


def _array(items: Sequence[bytes]) -> bytes:
    return _length(len(items)) + b"".join(items)
