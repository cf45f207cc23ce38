"""Creates topics, records and committed offsets in a cluster on loopback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from lagwatch.demo.kafka_admin import READY_SECONDS, KafkaAdmin, until_ready


class KafkaContents(KafkaAdmin):
    """The calls that fill a cluster."""

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait for its leaders; `assignment` ({partition: brokers}) overrides the two counts."""
        self.create_topics([name], partitions=partitions, replication=replication, assignment=assignment, config=config)

    def create_topics(
        self,
        names: Sequence[str],
        *,
        partitions: int = 1,
        replication: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create several equal topics with one request."""
        shape: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replication}
        if assignment:
            shape = {"assignments": {partition: list(brokers) for partition, brokers in assignment.items()}}
        topic = shape | {"configs": dict(config or {})}
        with self.admin() as admin:
            admin.create_topics(dict.fromkeys(names, topic))
            admin.wait_for_topics(names, timeout_ms=READY_SECONDS * 1000)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no broker lists it."""
        with self.admin() as admin:
            admin.delete_topics([name])
            until_ready(lambda: name not in admin.list_topics() or None, f"topic {name} is still listed")

    def produce(
        self,
        topic: str,
        counts: Mapping[int, int],
        *,
        value: bytes = b"x" * 100,
        timestamp_ms: int | None = None,
    ) -> None:
        """Append records, `counts` per partition, and wait until all in-sync replicas have them."""
        self.settle()
        producer = KafkaProducer(
            bootstrap_servers=list(self.live_brokers.values()), acks="all", linger_ms=5, retries=10
        )
        try:
            sent = [
                producer.send(topic, value, partition=partition, timestamp_ms=timestamp_ms)
                for partition, count in counts.items()
                for _ in range(count)
            ]
            producer.flush(timeout=120)
            for record in sent:
                record.get(timeout=0)
        finally:
            producer.close(timeout=5)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group without members, which creates the group."""
        wanted = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for (topic, partition), offset in offsets.items()
        }

        def attempt() -> bool | None:
            outcome = admin.alter_group_offsets(group, wanted)
            for error in outcome.values():
                if error is not NoError:
                    raise error(f"commit of group {group}")
            return True

        with self.admin() as admin:
            until_ready(attempt, f"group {group} cannot commit")

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group."""
        with self.admin() as admin:
            answer = until_ready(lambda: admin.list_group_offsets([group]), f"offsets of group {group} cannot be read")
        return {(partition.topic, partition.partition): found.offset for partition, found in answer[group].items()}
