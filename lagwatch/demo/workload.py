"""The workload of the demo: topics with their traffic, and the consumer groups that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lagwatch.demo.behaviours import (
    Bursting,
    CommittingWithoutMembers,
    Consuming,
    Restarting,
    Rewinding,
    Stalling,
    Stopping,
)
from lagwatch.demo.client_thread import ClientThread, GroupBehaviour, stop_all
from lagwatch.demo.exactly_once import Transforming
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.producers import Producing


@dataclass(frozen=True, slots=True)
class WorkloadTopic:
    """A topic with its records per second and the weight of each partition."""

    name: str
    per_second: float
    shares: tuple[int, ...]


class WorkloadGroup:
    """A consumer group: a description of its behaviour, and its members."""

    def __init__(self, what: str, *members: GroupBehaviour) -> None:
        [self.name] = {member.group for member in members}
        self.what, self.members = what, members


TOPICS = (
    WorkloadTopic("orders", 12, (8, 4, 2, 2, 1, 1)),
    WorkloadTopic("clicks", 16, (5, 1, 1, 1)),
    WorkloadTopic("payments", 6, (3, 2, 1)),
    WorkloadTopic("audit", 3, (1,)),
    WorkloadTopic("orders-priced", 0, (1, 1)),  # written by the group `transactional`
)


# Rates relate to TOPICS: `slow` reads three quarters of the records written to its topic.
GROUPS = (
    WorkloadGroup("two members, keeps up", Consuming("healthy", "orders"), Consuming("healthy", "orders")),
    WorkloadGroup("reads 12 of 16 records per second", Consuming("slow", "clicks", per_second=12)),
    WorkloadGroup("alive and committing, always the same offset", Stalling("stalled-committing", "payments", 10)),
    WorkloadGroup("worked for 20 s, then its process ended", Stopping("stopped", "payments", 20)),
    WorkloadGroup("seeks to the start every minute", Rewinding("rewound", "payments", 60, catch_up_seconds=20)),
    WorkloadGroup("reads everything at once every 30 s", Bursting("bursty", "clicks", 30, burst_seconds=5)),
    WorkloadGroup(
        "reads and writes in transactions, keeps up", Transforming("transactional", "orders", "orders-priced")
    ),
    WorkloadGroup("keeps up, but commits every two minutes", Consuming("commits-every-2m", "orders", None, 120)),
    WorkloadGroup("commits every minute, never has a member", CommittingWithoutMembers("no-members", "audit", 60)),
    WorkloadGroup("40 s up, 40 s down: nothing is wrong", Restarting("restarting", "orders", 40, 40)),
)
GROUP_DESCRIPTIONS = {group.name: group.what for group in GROUPS}


def create_topics(kafka: KafkaCluster, topics: Sequence[WorkloadTopic] = TOPICS) -> None:
    """Create the topics so that one broker may fail without data loss and without blocking writes."""
    for topic in topics:
        kafka.create_topic(
            topic.name,
            partitions=len(topic.shares),
            replication=3,
            config={"min.insync.replicas": "2", "retention.ms": str(6 * 3600 * 1000)},
        )


class Workload:
    """All producers and consumers, running on a cluster with the topics."""

    def __init__(
        self, kafka: KafkaCluster, topics: Sequence[WorkloadTopic] = TOPICS, groups: Sequence[WorkloadGroup] = GROUPS
    ) -> None:
        writing = [
            Producing(topic.name, topic.per_second, topic.shares, seed)
            for seed, topic in enumerate(topics)
            if topic.per_second
        ]
        reading = [member for group in groups for member in group.members]
        self._running = [ClientThread(behaviour, kafka) for behaviour in (*writing, *reading)]

    def stop(self, seconds: float = 5.0) -> None:
        """Stop all clients; one that hangs is left until the process ends."""
        stop_all(self._running, seconds)
