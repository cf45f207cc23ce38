"""Builds the jobs of a cluster from its settings: one collector per job, each with its own connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from collectors.kafka_client.connection import KafkaConnection
from collectors.kafka_client.offsets_fetch import FetchLimits
from collectors.kafka_commits import KafkaCommits
from collectors.kafka_configs import KafkaConfigs
from collectors.kafka_logdirs import KafkaLogDirs
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_quorum import KafkaQuorum
from collectors.kafka_timestamps import KafkaTimestamps
from collectors.kafka_unread import KafkaUnread
from lagwatch.assemble.connection import connection_options, name_filter
from lagwatch.assemble.jmx import JmxAssembly
from lagwatch.assemble.verdicts import assemble_evaluator
from lagwatch.broker_queries import MAX_TIMESTAMP_QUERIES
from lagwatch.config import ClusterSettings
from lagwatch.evaluation import Evaluator
from lagwatch.pipeline.queries.timestamps import TimestampQueries
from lagwatch.pipeline.queries.unread_tail import TailQueries
from lagwatch.protocols import Collector, Job
from lagwatch.snapshot import Snapshot
from lagwatch.source_names import CONFIGS
from lagwatch.verdict.policy import Extension

_SLOW_DEADLINE_SECONDS = 30.0
_FETCH_BYTES = 8 * 1024 * 1024


class Closable(Protocol):
    """A connection that can be closed while a collector uses it."""

    def close(self) -> None:
        """Close it; requests in flight fail at once."""


@dataclass(frozen=True, slots=True)
class ClusterJobs:
    """The jobs of a cluster, the evaluator of what they collect, the pipeline's queries, and the open connections."""

    jobs: tuple[Job, ...]
    configs: KafkaConfigs
    evaluator: Evaluator
    timestamp_queries: TimestampQueries
    tail_queries: TailQueries
    connections: tuple[Closable, ...]

    def resume(self, snapshot: Snapshot) -> None:
        """Give the collectors what the jobs before a reload or a restart collected. Call it before the first run."""
        topics = snapshot.columns("topic", "topic", "min_isr", source=CONFIGS)
        self.configs.resume({topic: min_isr for topic, min_isr in topics if min_isr is not None})

    def close(self) -> None:
        """Close all connections; collectors that are polling fail at once."""
        for connection in self.connections:
            connection.close()


@dataclass(slots=True)
class _Assembly:
    """What the collectors of one cluster are built from.

    A broker answers the requests of one connection in order, so a slow request (sizes on disk, a quorum without a
    leader) on a shared connection would delay the polls: each collector has its own.
    """

    settings: ClusterSettings
    slow_deadline_seconds: float
    evaluator: Evaluator
    timestamp_queries: TimestampQueries = field(default_factory=TimestampQueries)
    tail_queries: TailQueries = field(default_factory=TailQueries)
    connections: list[Closable] = field(default_factory=list)

    def connect(self) -> KafkaConnection:
        """A new connection; it opens on first use."""
        connection = KafkaConnection(connection_options(self.settings))
        self.connections.append(connection)
        return connection

    def topic_configs(self) -> KafkaConfigs:
        """The collector of topic configurations."""
        settings = self.settings
        return KafkaConfigs(
            settings.name, self.connect(), topics=name_filter(settings.topics), deadline_seconds=self._slow_deadline()
        )

    def collectors(self, configs: KafkaConfigs, jmx: JmxAssembly | None) -> Iterator[tuple[Collector, timedelta]]:
        """Every collector with its interval, in the order of a single cycle.

        The poll takes min.insync.replicas from the configs and is evaluated on the commits, so both precede it.
        """
        settings, every = self.settings, self.settings.intervals
        name, topics, groups = settings.name, name_filter(settings.topics), name_filter(settings.groups)
        quick, slow = settings.deadline.total_seconds(), self._slow_deadline()

        yield configs, every.configs
        if settings.commits != "poll":
            yield (
                KafkaCommits(
                    name,
                    self.connect(),
                    topics=topics,
                    groups=groups,
                    limits=_fetch_limits(settings),
                    optional=settings.commits == "auto",
                    deadline_seconds=quick,
                ),
                every.kafka,
            )
        yield (
            KafkaPoll(
                name, self.connect(), topics=topics, groups=groups, min_isr=configs.min_isr, deadline_seconds=quick
            ),
            every.kafka,
        )
        yield KafkaQuorum(name, self.connect(), deadline_seconds=quick), every.quorum
        yield KafkaLogDirs(name, self.connect(), topics=topics, deadline_seconds=slow), every.logdirs
        next_timestamps = self.timestamp_queries.take
        yield (
            KafkaTimestamps(
                self.connect(),
                next_query=next_timestamps,
                max_partitions=MAX_TIMESTAMP_QUERIES,
                deadline_seconds=quick,
            ),
            every.kafka,
        )
        if self.evaluator.policies.any_enabled(Extension.MARKERS):
            yield KafkaUnread(self.connect(), next_query=self.tail_queries.take, deadline_seconds=quick), every.kafka
        if jmx is not None and settings.jmx is not None:
            brokers = jmx.collector(settings, settings.jmx, self.connect())  # cluster metadata lists the brokers
            self.connections.append(brokers)
            yield brokers, every.jmx

    def _slow_deadline(self) -> float:
        return max(self.settings.deadline.total_seconds(), self.slow_deadline_seconds)


def assemble_cluster(
    settings: ClusterSettings, jmx: JmxAssembly | None = None, *, slow_deadline_seconds: float = _SLOW_DEADLINE_SECONDS
) -> ClusterJobs:
    """The jobs of a cluster. Nothing connects yet; without `jmx` there is no JMX job."""
    assembly = _Assembly(settings, slow_deadline_seconds, assemble_evaluator(settings))
    configs = assembly.topic_configs()
    jobs = tuple(
        Job(settings.name, collector.source, collector, interval.total_seconds())
        for collector, interval in assembly.collectors(configs, jmx)
    )
    return ClusterJobs(
        jobs,
        configs,
        assembly.evaluator,
        assembly.timestamp_queries,
        assembly.tail_queries,
        tuple(assembly.connections),
    )


def _fetch_limits(settings: ClusterSettings) -> FetchLimits:
    # A response may exceed the limit by one batch, and must still fit what a connection accepts.
    most = min(_FETCH_BYTES, int(settings.receive_max) // 2)
    return FetchLimits(look_back_seconds=settings.commits_look_back.total_seconds(), response_bytes=most)
