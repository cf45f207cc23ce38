"""Generates polls of a cluster of the story, in the form of the agent's collectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lagwatch.batch import Batch, make_batch
from lagwatch.catalogue import BROKER, CLUSTER, CONSUMER_GROUP, CONSUMER_LAG, GROUP_MEMBER, TOPIC, TOPIC_PARTITION
from lagwatch.demo.history.consumers import GroupProgress
from lagwatch.demo.history.jmx_rows import ClusterLoad, jmx_batches
from lagwatch.demo.history.layout import Layout
from lagwatch.demo.history.story import HOUR, StoryCluster
from lagwatch.demo.history.traffic import Traffic
from lagwatch.protocols import Collected, Failure
from lagwatch.source_names import CONFIGS, JMX, KAFKA, LOGDIRS, QUORUM

_DISK_BYTES = 500 * 10**9
_SLOW_JOBS_EVERY = 6  # polls: slowly changing values are not polled every time


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one job: its source, its result and its duration."""

    source: str
    collected: Collected
    seconds: float


class ClusterHistory:
    """The polls of a cluster from `begin` to `end` and beyond, in wall seconds. Request them in order of time."""

    def __init__(self, cluster: StoryCluster, begin: float, end: float) -> None:
        self._cluster = cluster
        self._end = end
        self._traffic = {topic.name: Traffic(topic, end) for topic in cluster.topics}
        self._readings = [GroupProgress(group, self._traffic, begin, end) for group in cluster.groups]
        self._polls = 0
        self._elections = 0
        self._leader = 0

    def runs(self, at: float) -> Iterator[Run]:
        """The runs of all jobs that are due at this time."""
        hours = (self._end - at) / HOUR
        for reading in self._readings:
            reading.advance(at)
        if self._cluster.unreachable(hours):
            for source in (KAFKA, QUORUM, LOGDIRS, JMX):
                reason = "no broker responded within 5s (generated: this is a demo)"
                yield Run(source, Collected([], [Failure(source, "", reason)], complete=False), 5.0)
            return
        layout = Layout.of(self._cluster, self._cluster.away(hours))
        at_ms = round(at * 1000)
        gone = sorted(layout.away)
        failures = [Failure(KAFKA, f"broker {b}", "connection refused (generated: this is a demo)") for b in gone]
        reached = [f"broker {b}" for b in layout.alive]
        slow = 1.0 + 4.0 * bool(gone)
        yield Run(KAFKA, Collected(self._kafka(at, at_ms, layout), failures, reached), 0.05 * slow)
        yield Run(QUORUM, Collected(self._quorum(at_ms, layout), []), 0.02)
        self._polls += 1
        if self._polls % _SLOW_JOBS_EVERY == 1 or hours < 1:
            yield Run(CONFIGS, Collected([self._configs(at_ms)], []), 0.08)
            yield Run(LOGDIRS, Collected(self._sizes(at, at_ms, layout), []), 0.04 * slow)
        away = [Failure(JMX, f"broker {b}", "connection refused (generated: this is a demo)") for b in gone]
        load = ClusterLoad(at, hours, sum(t.per_second(at) * t.topic.message_bytes for t in self._traffic.values()))
        batches = jmx_batches(self._cluster, at_ms, layout, load, self._traffic)
        yield Run(JMX, Collected(batches, away, reached), 0.11 * slow)

    def _batch(self, table: object, at_ms: int, **columns: list[object]) -> Batch:
        return make_batch(table, self._cluster.name, at_ms, columns)  # type: ignore[arg-type]

    def _kafka(self, at: float, at_ms: int, layout: Layout) -> list[Batch]:
        topics = [topic.name for topic in self._cluster.topics]
        counts = [len(topic.shares) for topic in self._cluster.topics]
        partitions = layout.partitions
        ends = {name: traffic.ends(at) for name, traffic in self._traffic.items()}
        starts = {name: traffic.starts(at) for name, traffic in self._traffic.items()}
        end = [ends[p.topic][p.number] for p in partitions]
        members = [(reading.group.name, m) for reading in self._readings for m in reading.members()]
        commits = [
            (reading.group.name, topic, number, offset)
            for reading in self._readings
            for topic, offsets in reading.committed.items()
            for number, offset in enumerate(offsets)
        ]
        return [
            self._batch(
                TOPIC,
                at_ms,
                topic=[*topics],
                topic_id=[f"demo-{name}" for name in topics],
                partitions=[*counts],
                replication=[len(self._cluster.brokers)] * len(topics),
            ),
            self._batch(
                TOPIC_PARTITION,
                at_ms,
                topic=[p.topic for p in partitions],
                partition=[p.number for p in partitions],
                log_start_offset=[starts[p.topic][p.number] for p in partitions],
                log_end_offset=[*end],
                last_stable_offset=[*end],
                leader=[p.leader for p in partitions],
                replicas=[len(p.replicas) for p in partitions],
                in_sync_replicas=[len(p.in_sync) for p in partitions],
                under_replicated=[len(p.in_sync) < len(p.replicas) for p in partitions],
                under_min_isr=[len(p.in_sync) < 2 for p in partitions],
                offline=[p.leader is None for p in partitions],
                preferred_leader=[p.leader == p.replicas[0] for p in partitions],
            ),
            self._batch(
                CONSUMER_GROUP,
                at_ms,
                group=[reading.group.name for reading in self._readings],
                state=[reading.state for reading in self._readings],
                type=["classic"] * len(self._readings),
                protocol_type=["consumer"] * len(self._readings),
                coordinator=[layout.alive[n % len(layout.alive)] for n in range(len(self._readings))],
                members=[len(reading.members()) for reading in self._readings],
                empty_members=[0] * len(self._readings),
                stale=[False] * len(self._readings),
            ),
            self._batch(
                GROUP_MEMBER,
                at_ms,
                group=[group for group, _ in members],
                member=[m.id for _, m in members],
                client_id=[m.client for _, m in members],
                host=[m.host for _, m in members],
                partitions=[m.partitions for _, m in members],
                assignment=[m.assignment for _, m in members],
            ),
            self._batch(
                CONSUMER_LAG,
                at_ms,
                group=[group for group, _, _, _ in commits],
                topic=[topic for _, topic, _, _ in commits],
                partition=[number for _, _, number, _ in commits],
                committed_offset=[offset for _, _, _, offset in commits],
            ),
            self._batch(
                BROKER,
                at_ms,
                broker=[*self._cluster.brokers],
                host=[
                    f"kafka{b}.{self._cluster.name}:9092" if b in layout.alive else None for b in self._cluster.brokers
                ],
                registered=[b in layout.alive for b in self._cluster.brokers],
                leaders=[layout.leaders(b) for b in self._cluster.brokers],
                partitions=[len(partitions)] * len(self._cluster.brokers),
                missing_from_isr=[len(partitions) if b in layout.away else 0 for b in self._cluster.brokers],
            ),
            self._batch(
                CLUSTER,
                at_ms,
                cluster_id=[f"demo-{self._cluster.name}"],
                brokers=[len(layout.alive)],
                topics=[len(topics)],
                partitions=[len(partitions)],
                groups=[len(self._readings)],
                under_replicated_partitions=[len(partitions) if layout.away else 0],
                offline_partitions=[sum(p.leader is None for p in partitions)],
                under_min_isr_partitions=[sum(len(p.in_sync) < 2 for p in partitions)],
                not_preferred_leader_partitions=[sum(p.leader != p.replicas[0] for p in partitions)],
                suspect_broker=[min(layout.away, default=None)],
            ),
        ]

    def _configs(self, at_ms: int) -> Batch:
        topics = self._cluster.topics
        return self._batch(
            TOPIC,
            at_ms,
            topic=[topic.name for topic in topics],
            min_isr=[2] * len(topics),
            retention_ms=[round(topic.retention_hours * HOUR * 1000) for topic in topics],
            retention_bytes=[-1] * len(topics),
            cleanup_policy=["delete"] * len(topics),
            timestamp_type=["CreateTime"] * len(topics),
        )

    def _quorum(self, at_ms: int, layout: Layout) -> list[Batch]:
        if layout.alive[0] != self._leader:
            self._leader, self._elections = layout.alive[0], self._elections + 1
        return [
            self._batch(
                CLUSTER,
                at_ms,
                active_controllers=[1],
                controller=[self._leader],
                quorum_epoch=[self._elections],
                quorum_voters=[len(self._cluster.brokers)],
                quorum_max_lag=[1800 if layout.away else 0],
            ),
            self._batch(
                BROKER,
                at_ms,
                broker=[*self._cluster.brokers],
                controller=[b == self._leader for b in self._cluster.brokers],
            ),
        ]

    def _sizes(self, at: float, at_ms: int, layout: Layout) -> list[Batch]:
        kept: dict[tuple[str, int], int] = {}
        for name, traffic in self._traffic.items():
            for number, (start, end) in enumerate(zip(traffic.starts(at), traffic.ends(at), strict=True)):
                kept[name, number] = (end - start) * traffic.topic.message_bytes
        whole = sum(kept.values())
        return [
            self._batch(
                TOPIC_PARTITION,
                at_ms,
                topic=[topic for topic, _ in kept],
                partition=[number for _, number in kept],
                size_bytes=[*kept.values()],
            ),
            self._batch(
                TOPIC,
                at_ms,
                topic=[*self._traffic],
                size_bytes=[
                    sum(size for (topic, _), size in kept.items() if topic == name) * len(self._cluster.brokers)
                    for name in self._traffic
                ],
            ),
            self._batch(
                BROKER,
                at_ms,
                broker=[*layout.alive],
                size_bytes=[whole] * len(layout.alive),
                disk_total_bytes=[_DISK_BYTES] * len(layout.alive),
                disk_free_bytes=[_DISK_BYTES - whole] * len(layout.alive),
            ),
        ]
