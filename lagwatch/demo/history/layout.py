"""Leaders and in-sync replicas of the partitions while some brokers are down."""

from __future__ import annotations

from dataclasses import dataclass

from lagwatch.demo.history.story import StoryCluster


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition with its replicas."""

    topic: str
    number: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def leader(self) -> int | None:
        """The first in-sync replica."""
        return self.in_sync[0] if self.in_sync else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The partitions of a cluster while some brokers are down."""

    partitions: tuple[Partition, ...]
    alive: tuple[int, ...]
    away: frozenset[int]

    @classmethod
    def of(cls, cluster: StoryCluster, away: set[int]) -> Layout:
        """Assign replicas round-robin, like Kafka."""
        made, turn = [], 0
        for topic in cluster.topics:
            for number in range(len(topic.shares)):
                replicas = tuple(
                    cluster.brokers[(turn + n) % len(cluster.brokers)] for n in range(len(cluster.brokers))
                )
                in_sync = tuple(broker for broker in replicas if broker not in away)
                made.append(Partition(topic.name, number, replicas, in_sync))
                turn += 1
        return cls(tuple(made), tuple(b for b in cluster.brokers if b not in away), frozenset(away))

    def leaders(self, broker: int) -> int:
        """The number of partitions that the broker leads."""
        return sum(partition.leader == broker for partition in self.partitions)
