"""Fills a cluster with topics, records, committed groups and live members within seconds.

It uses raw requests with many partitions each: 10,000 partitions of 1,000 groups take about half a minute.
Offsets are computed from the numbers of topic, group and partition, so the expected lag needs no query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import kafka.errors
from kafka.protocol.consumer import JoinGroupRequest, OffsetCommitRequest, SyncGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecordsBuilder

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.connection_interface import Deadline
from lagwatch.demo.kafka_admin import until_ready
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.errors import SourceError

PARTITIONS_A_TOPIC = 50
GROUPS_A_TOPIC = 5
RECORDS_A_PARTITION = 20
_TOPICS_A_REQUEST = 20
_SECONDS = 120.0
_SESSION_MS = 30 * 60 * 1000  # lifetime of members without heartbeats, the default maximum of brokers
_NOT_LEADER = 6
_CONSUMER_OFFSETS = 0  # the key type of FindCoordinator for a group


@dataclass(frozen=True, slots=True)
class LoadSize:
    """The size of the load. Every second group has commits on two topics, the others on one; one in five has a member."""

    partitions: int

    @property
    def topics(self) -> int:
        return self.partitions // PARTITIONS_A_TOPIC

    @property
    def groups(self) -> int:
        return self.topics * GROUPS_A_TOPIC

    @property
    def live(self) -> list[int]:
        """The groups with a live member."""
        return list(range(0, self.groups, 5))

    @property
    def group_partitions(self) -> int:
        return sum(len(topics_of(group)) * PARTITIONS_A_TOPIC for group in range(self.groups))

    @property
    def lag(self) -> int:
        """The total lag of all groups."""
        return sum(
            RECORDS_A_PARTITION - committed(group, partition)
            for group in range(self.groups)
            for partition in range(PARTITIONS_A_TOPIC)
            for _ in topics_of(group)
        )


def topic_name(topic: int) -> str:
    return f"load-topic-{topic:03}"


def group_name(group: int) -> str:
    return f"load-group-{group:04}"


def topics_of(group: int) -> list[int]:
    """The topics of a group: its own, and for odd numbers the next one too."""
    own = group // GROUPS_A_TOPIC
    return [own, own ^ 1] if group % 2 else [own]


def committed(group: int, partition: int) -> int:
    """The committed offset of a group on a partition, from zero to the end."""
    return (7 * group + 3 * partition) % (RECORDS_A_PARTITION + 1)


class KafkaLoad:
    """Fills one cluster, more at each call of `grow`."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka
        self._options = ConnectionOptions(tuple(kafka.bootstrap.split(",")))
        self._topics = 0
        self._groups = 0

    def grow(self, size: LoadSize, report: Callable[[str], None] = lambda _: None) -> None:
        """Grow the cluster to this size; leaves no connection and no thread."""
        self._connection = KafkaConnection(self._options)
        try:
            self._grow(size, report)
        finally:
            self._connection.close()

    def _grow(self, size: LoadSize, report: Callable[[str], None]) -> None:
        topics, groups = range(self._topics, size.topics), range(self._groups, size.groups)
        for part in _parts(topics, _TOPICS_A_REQUEST):
            self._kafka.create_topics([topic_name(topic) for topic in part], partitions=PARTITIONS_A_TOPIC)
        report(f"{len(topics)} topics created")
        for part in _parts(topics, _TOPICS_A_REQUEST):
            self._produce(part)
        report("records produced")
        coordinators = self._coordinators(groups)
        until_ready(
            lambda: self._ask_all([self._commit(coordinators[group], group) for group in groups]),
            "offsets cannot be committed",
        )
        report(f"offsets of {len(groups)} groups committed")
        live = [group for group in size.live if group in groups]
        self._ask_all([self._join(coordinators[group], group) for group in live])
        report(f"{len(live)} members joined")
        self._topics, self._groups = size.topics, size.groups

    def _produce(self, topics: Sequence[int]) -> None:
        """Produce the same records to every partition, one request per leader."""
        missing = {(topic_name(topic), partition) for topic in topics for partition in range(PARTITIONS_A_TOPIC)}
        records = _records()

        def attempt() -> bool | None:
            led = self._leaders(missing)
            answers = self._ask_all(
                [self._send(leader, _produce_request(part, records)) for leader, part in led.items()]
            )
            for topic in (topic for answer in answers for topic in answer.responses):
                for partition in topic.partition_responses:
                    if partition.error_code != _NOT_LEADER:  # just created: its leader has not been notified yet
                        _raise_if_refused(partition.error_code, f"records of {topic.name}")
                        missing.remove((topic.name, partition.index))
            return None if missing else True

        until_ready(attempt, "records cannot be produced")

    def _leaders(self, wanted: Collection[tuple[str, int]]) -> dict[int, dict[str, list[int]]]:
        with self._kafka.admin() as admin:
            described = admin.describe_topics(sorted({topic for topic, _ in wanted}))
        led: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for topic in described:
            for partition in topic["partitions"]:
                if (topic["name"], partition["partition_index"]) in wanted:
                    led[partition["leader_id"]][topic["name"]].append(partition["partition_index"])
        return led

    def _coordinators(self, groups: Iterable[int]) -> dict[int, int]:
        """The coordinator of each group; the request creates the offsets topic."""
        by_name = {group_name(group): group for group in groups}

        def attempt() -> dict[int, int]:
            request = FindCoordinatorRequest(key_type=_CONSUMER_OFFSETS, coordinator_keys=list(by_name), min_version=4)
            [answer] = self._ask_all([self._send(self._any_broker(), request)])
            for found in answer.coordinators:
                _raise_if_refused(found.error_code, f"coordinator of {found.key}")
            return {by_name[found.key]: found.node_id for found in answer.coordinators}

        return until_ready(attempt, "the groups have no coordinator")

    def _any_broker(self) -> int:
        return next(iter(self._kafka.live_brokers))

    async def _commit(self, broker: int, group: int) -> None:
        topic_of = OffsetCommitRequest.OffsetCommitRequestTopic
        partition_of = topic_of.OffsetCommitRequestPartition
        request = OffsetCommitRequest(
            group_id=group_name(group),
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                topic_of(
                    name=topic_name(topic),
                    partitions=[
                        partition_of(
                            partition_index=partition,
                            committed_offset=committed(group, partition),
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                        for partition in range(PARTITIONS_A_TOPIC)
                    ],
                )
                for topic in topics_of(group)
            ],
            max_version=9,  # later versions identify topics by id
        )
        answer = await self._send(broker, request)
        for topic in answer.topics:
            for partition in topic.partitions:
                _raise_if_refused(partition.error_code, f"commit of {group_name(group)}")

    async def _join(self, broker: int, group: int) -> None:
        """Join one member that owns all partitions of its group. It sends no heartbeats, so it needs no thread."""
        topics = [topic_name(topic) for topic in topics_of(group)]
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        joined = await self._send(
            broker,
            JoinGroupRequest(
                group_id=group_name(group),
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_SESSION_MS,
                member_id="",
                protocol_type="consumer",
                protocols=[
                    protocol(
                        name="range", metadata=ConsumerProtocolSubscription(topics=topics, user_data=None, version=0)
                    )
                ],
                max_version=3,  # later versions return only a member id at the first join
            ),
        )
        _raise_if_refused(joined.error_code, f"join of {group_name(group)}")
        part = ConsumerProtocolAssignment.TopicPartition
        parts = [part(topic=topic, partitions=list(range(PARTITIONS_A_TOPIC))) for topic in topics]
        assignment = ConsumerProtocolAssignment(assigned_partitions=parts, user_data=None, version=0)
        synced = await self._send(
            broker,
            SyncGroupRequest(
                group_id=group_name(group),
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[
                    SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
                ],
                max_version=2,
            ),
        )
        _raise_if_refused(synced.error_code, f"sync of {group_name(group)}")

    async def _send(self, broker: int, request: Any) -> Any:
        return await self._connection.request(broker, request, Deadline.after(_SECONDS))

    def _ask_all(self, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run in parallel; raises the first error."""

        async def all_of_them(_: Deadline) -> list[Any]:
            return await self._connection.gather(works)

        answers = self._connection.run(all_of_them, _SECONDS)
        for answer in answers:
            if isinstance(answer, SourceError):
                raise answer
        return answers


def _produce_request(led: dict[str, list[int]], records: bytes) -> Any:
    topic_of, partition_of = ProduceRequest.TopicProduceData, ProduceRequest.TopicProduceData.PartitionProduceData
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=int(_SECONDS * 1000),
        topic_data=[
            topic_of(name=name, partition_data=[partition_of(index=index, records=records) for index in partitions])
            for name, partitions in led.items()
        ],
        max_version=12,  # later versions identify topics by id
    )


def _records() -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for number in range(RECORDS_A_PARTITION):
        builder.append(timestamp=None, key=None, value=b"%d" % number)
    builder.close()
    return bytes(builder.buffer())


def _raise_if_refused(code: int, what: str) -> None:
    error = kafka.errors.for_code(code)
    if error is not kafka.errors.NoError:
        raise error(what)


def _parts(numbers: Sequence[int], size: int) -> list[Sequence[int]]:
    return [numbers[first : first + size] for first in range(0, len(numbers), size)]
