"""A cluster's settings turned into the collectors that ask it. With the agent and the commands it alone reads settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_client.oauth import ClientCredentials
from collectors.kafka_client.offsets_fetch import FetchLimits
from collectors.kafka_commits import KafkaCommits
from collectors.kafka_configs import KafkaConfigs
from collectors.kafka_logdirs import KafkaLogDirs
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_quorum import KafkaQuorum
from collectors.kafka_timestamps import KafkaTimestamps
from collectors.kafka_unread import KafkaUnread
from lagwatch.assemble.jmx import JmxAssembly, catalogue_of
from lagwatch.assemble.verdicts import assemble_evaluator
from lagwatch.catalogue import Catalogue
from lagwatch.clock import Clock
from lagwatch.config import Archive, ClusterSettings, Influxdb, Sasl, Selection, Settings, Tls
from lagwatch.evaluation import Evaluator
from lagwatch.name_filter import NameFilter
from lagwatch.pipeline.queries.timestamps import TimestampQueries
from lagwatch.pipeline.queries.unread_tail import TailQueries
from lagwatch.protocols import Collector, Sink
from lagwatch.shipping import ShippingRate
from lagwatch.sinks.archive.sink import ArchiveSink
from lagwatch.sinks.influx.row_filter import TableRule
from lagwatch.sinks.influx.sink import InfluxOptions, InfluxSink
from lagwatch.verdict.policy import Extension

_SLOW_DEADLINE_SECONDS = 30.0
_FETCH_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    """One collector of one cluster and how often it asks."""

    cluster: str
    source: str
    collector: Collector
    interval_seconds: float

    @property
    def name(self) -> str:
        """`east/kafka`."""
        return f"{self.cluster}/{self.source}"


class Closable(Protocol):
    """Connections that can be closed under whoever uses them."""

    def close(self) -> None:
        """Let go of them; calls that are out fail at once."""


@dataclass(frozen=True, slots=True)
class ClusterJobs:
    """The jobs of a cluster, the judge of what they bring, and the connections they use."""

    jobs: tuple[Job, ...]
    evaluator: Evaluator
    timestamp_queries: TimestampQueries
    tail_queries: TailQueries
    connections: tuple[Closable, ...]

    def close(self) -> None:
        """Close all connections; collectors that are asking fail at once."""
        for connection in self.connections:
            connection.close()


def assemble_cluster(
    cluster: ClusterSettings, jmx: JmxAssembly | None = None, *, slow_deadline_seconds: float = _SLOW_DEADLINE_SECONDS
) -> ClusterJobs:
    """The collectors of a cluster, each on connections of its own; of JMX only with what all clusters share for it.

    A broker answers the requests of one connection in order, so a slow question (sizes on disk, a quorum without a
    leader) on a shared one would hold up the polls.
    """
    options = connection_options(cluster)
    poll, configs, logdirs, quorum, commits, times, markers = (KafkaConnection(options) for _ in range(7))
    timestamp_queries, tail_queries = TimestampQueries(), TailQueries()
    evaluator = assemble_evaluator(cluster)
    topics, groups = name_filter(cluster.topics), name_filter(cluster.groups)
    deadline = cluster.deadline.total_seconds()
    slow = max(deadline, slow_deadline_seconds)
    of_configs = KafkaConfigs(cluster.name, configs, topics=topics, deadline_seconds=slow)
    of_poll = KafkaPoll(
        cluster.name, poll, topics=topics, groups=groups, min_isr=of_configs.min_isr, deadline_seconds=deadline
    )
    intervals = cluster.intervals
    jobs: tuple[Job, ...] = (
        Job(cluster.name, of_configs.source, of_configs, intervals.configs.total_seconds()),
        Job(cluster.name, of_poll.source, of_poll, intervals.kafka.total_seconds()),
        Job(
            cluster.name,
            KafkaQuorum.source,
            KafkaQuorum(cluster.name, quorum, deadline_seconds=deadline),
            intervals.quorum.total_seconds(),
        ),
        Job(
            cluster.name,
            KafkaLogDirs.source,
            KafkaLogDirs(cluster.name, logdirs, topics=topics, deadline_seconds=slow),
            intervals.logdirs.total_seconds(),
        ),
        Job(
            cluster.name,
            KafkaTimestamps.source,
            KafkaTimestamps(times, next_query=timestamp_queries.take, deadline_seconds=deadline),
            intervals.kafka.total_seconds(),
        ),
    )
    connections: tuple[Closable, ...] = (poll, configs, logdirs, quorum, commits, times, markers)
    if evaluator.policies.any_enabled(Extension.REMAINDER):
        of_markers = KafkaUnread(markers, next_query=tail_queries.take, deadline_seconds=deadline)
        jobs = (*jobs, Job(cluster.name, of_markers.source, of_markers, intervals.kafka.total_seconds()))
    if cluster.commits == "topic":
        of_commits = KafkaCommits(
            cluster.name,
            commits,
            topics=topics,
            groups=groups,
            limits=_commit_limits(cluster),
            deadline_seconds=deadline,
        )
        jobs = (*jobs, Job(cluster.name, of_commits.source, of_commits, intervals.kafka.total_seconds()))
    if jmx is not None and cluster.jmx is not None:
        brokers = KafkaConnection(options)  # to learn where they are
        of_jmx = jmx.collector(cluster, cluster.jmx, brokers)
        jobs = (*jobs, Job(cluster.name, of_jmx.source, of_jmx, intervals.jmx.total_seconds()))
        connections = (*connections, brokers, of_jmx)
    return ClusterJobs(jobs, evaluator, timestamp_queries, tail_queries, connections)


def _commit_limits(cluster: ClusterSettings) -> FetchLimits:
    # An answer may be larger than asked for by one batch, and must still fit what a connection takes.
    most = min(_FETCH_BYTES, int(cluster.receive_max) // 2)
    return FetchLimits(look_back_seconds=cluster.commits_look_back.total_seconds(), response_bytes=most)


def assemble_sinks(settings: Settings, clock: Clock) -> list[tuple[Sink, ShippingRate]]:
    """The sinks of the settings and how fast each is fed. None of them connects yet."""
    sinks: list[tuple[Sink, ShippingRate]] = []
    catalogue = catalogue_of(settings)
    if settings.influxdb is not None:
        pace = ShippingRate(backlog_rows_a_second=settings.influxdb.backlog_rows_a_second)
        sinks.append((InfluxSink(influx_options(settings.influxdb), catalogue), pace))
    if settings.archive is not None:
        sinks.append((_archive(settings.archive, settings.journal.path, catalogue, clock), ShippingRate()))
    return sinks


def influx_options(influxdb: Influxdb) -> InfluxOptions:
    """Where and what to write, as plain values."""
    retention = influxdb.bucket_retention
    return InfluxOptions(
        influxdb.url,
        influxdb.org,
        influxdb.bucket,
        influxdb.reveal_token(),
        ca_file=str(influxdb.ca_file) if influxdb.ca_file else None,
        verify_tls=influxdb.verify_tls,
        proxy=influxdb.proxy,
        timeout_seconds=influxdb.timeout.total_seconds(),
        tags=dict(influxdb.tags),
        choices={name: TableRule(table.every.total_seconds(), table.rows) for name, table in influxdb.tables},
        max_series=influxdb.max_series,
        bucket_retention_seconds=round(retention.total_seconds()) if retention else None,
    )


def _archive(archive: Archive, journal: Path, catalogue: Catalogue, clock: Clock) -> Sink:
    return ArchiveSink(
        archive.url,
        retention_days=archive.retention.days,
        partition_rows_every_seconds=archive.partition_rows_every.total_seconds(),
        catalogue=catalogue,
        clock=clock,
        spool_folder=journal.parent,  # on a disk that is ours, not on a share that may go away
    )


def connection_options(cluster: ClusterSettings) -> ConnectionOptions:
    """How to reach a cluster, in kafka-python's words."""
    security = cluster.security
    client: dict[str, Any] = {"security_protocol": security.protocol}
    if security.tls is not None:
        client |= _tls_options(security.tls)
    if security.sasl is not None:
        client |= _sasl_options(security.sasl)
    token = _token_source(security.sasl) if security.sasl is not None else None
    return ConnectionOptions(cluster.bootstrap, client, token, int(cluster.receive_max))


def _tls_options(tls: Tls) -> dict[str, Any]:
    options = {
        "ssl_cafile": tls.ca_file,
        "ssl_certfile": tls.cert_file,
        "ssl_keyfile": tls.key_file,
        "ssl_crlfile": tls.crl_file,
    }
    paths: dict[str, Any] = {key: str(path) for key, path in options.items() if path is not None}
    return paths | {"ssl_password": tls.reveal_key_password(), "ssl_check_hostname": tls.check_hostname}


def _sasl_options(sasl: Sasl) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl_mechanism": sasl.mechanism}
    if sasl.username is not None:
        options |= {"sasl_plain_username": sasl.username, "sasl_plain_password": sasl.reveal_password()}
    if sasl.kerberos is not None:
        options["sasl_kerberos_service_name"] = sasl.kerberos.service_name
        options["sasl_kerberos_domain_name"] = sasl.kerberos.domain_name
    return options


def _token_source(sasl: Sasl) -> Callable[[], str] | None:
    if sasl.oauth is not None:
        secret = sasl.oauth.reveal_client_secret() or ""
        return ClientCredentials(sasl.oauth.token_url, sasl.oauth.client_id, secret, sasl.oauth.scope)
    if sasl.token_file is not None:
        path = sasl.token_file
        return lambda: path.read_text().strip()  # read at each connection: another program renews it
    if sasl.token is not None:
        token = sasl.token.get_secret_value()
        return lambda: token
    return None


def name_filter(selection: Selection) -> NameFilter:
    """Which names a selection watches."""
    return NameFilter([p.pattern for p in selection.include], [p.pattern for p in selection.exclude])
