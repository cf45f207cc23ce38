"""What happens on the demo's cluster, in two tables: the topics with their traffic, and the groups that read them."""

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
from lagwatch.demo.kafka_cluster import KafkaCluster
from lagwatch.demo.life import GroupMember, Running, stop_all
from lagwatch.demo.producers import Producing
from lagwatch.demo.transforming import Transforming


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, what is written to it a second, and how that falls on its partitions, one share each."""

    name: str
    per_second: float
    shares: tuple[int, ...]


class Group:
    """A consumer group: what it does, in one sentence, and its members."""

    def __init__(self, what: str, *members: GroupMember) -> None:
        [self.name] = {member.group for member in members}
        self.what, self.members = what, members


TOPICS = (
    Topic("orders", 12, (8, 4, 2, 2, 1, 1)),
    Topic("clicks", 16, (5, 1, 1, 1)),
    Topic("payments", 6, (3, 2, 1)),
    Topic("audit", 3, (1,)),
    Topic("orders-priced", 0, (1, 1)),  # written by the group `transactional`
)


# Rates are those of TOPICS: `slow` reads three quarters of what is written to its topic.
GROUPS = (
    Group("two members, keeps up", Consuming("healthy", "orders"), Consuming("healthy", "orders")),
    Group("reads 12 of the 16 records that come each second", Consuming("slow", "clicks", per_second=12)),
    Group("alive and committing, always the same offset", Stalling("stalled-committing", "payments", 10)),
    Group("worked for 20 s, then its process was gone", Stopping("stopped", "payments", 20)),
    Group("jumps back to the start every minute", Rewinding("rewound", "payments", 60, catch_up_seconds=20)),
    Group("reads everything at once every 30 s", Bursting("bursty", "clicks", 30, burst_seconds=5)),
    Group("reads and writes in transactions, keeps up", Transforming("transactional", "orders", "orders-priced")),
    Group("keeps up, but commits every two minutes", Consuming("commits-every-2m", "orders", None, 120)),
    Group("commits every minute, never has a member", CommittingWithoutMembers("no-members", "audit", 60)),
    Group("40 s there, 40 s away: nothing is wrong", Restarting("restarting", "orders", 40, 40)),
)
LEGEND = {group.name: group.what for group in GROUPS}


def create_topics(kafka: KafkaCluster, topics: Sequence[Topic] = TOPICS) -> None:
    """Create the topics so that one broker can be lost without loss, and writing goes on."""
    for topic in topics:
        kafka.create_topic(
            topic.name,
            partitions=len(topic.shares),
            replication=3,
            config={"min.insync.replicas": "2", "retention.ms": str(6 * 3600 * 1000)},
        )


class Workload:
    """All of it, running on a cluster that has the topics."""

    def __init__(self, kafka: KafkaCluster, topics: Sequence[Topic] = TOPICS, groups: Sequence[Group] = GROUPS) -> None:
        writing = [
            Producing(topic.name, topic.per_second, topic.shares, seed)
            for seed, topic in enumerate(topics)
            if topic.per_second
        ]
        reading = [member for group in groups for member in group.members]
        self._running = [Running(behaviour, kafka) for behaviour in (*writing, *reading)]

    def stop(self, seconds: float = 5.0) -> None:
        """Close all clients; one that hangs is left to the end of the process."""
        stop_all(self._running, seconds)
