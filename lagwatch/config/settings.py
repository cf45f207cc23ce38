"""The settings, as frozen models. A field's description is the one place that says what it means.

A field with `examples` has no default worth showing: `config example` gives the sample, commented out unless required.
"""

from __future__ import annotations

import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, ValidationInfo, field_validator

from lagwatch.config.jmx import ClusterJmx, Jmx
from lagwatch.config.section import Section, is_given, is_known
from lagwatch.config.security import SecuritySettings, refuse_both, reveal
from lagwatch.config.units import format_duration, parse_size
from lagwatch.config.values import (
    Address,
    AnyPath,
    ByteSize,
    Duration,
    ExistingFile,
    FilePosition,
    FileWithSecret,
    Flag,
    Line,
    Name,
    Regex,
    Secret,
    Size,
    Url,
    between,
    split_brokers,
)
from lagwatch.config.verdicts import VerdictSettings


def _size(text: str) -> Size:
    return Size(parse_size(text))


class AgentSettings(Section):
    """The agent itself."""

    name: Name = Field(
        default_factory=lambda: socket.gethostname() or "lagwatch",
        description="name in its own metrics; default: the host's name",
        examples=["ops-1"],
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="debug, info, warning or error")


class JournalSettings(Section):
    """Where observations are kept before, and after, they are shipped."""

    path: AnyPath = Field(
        Path("lagwatch-data/journal.db"), description="the journal; a relative path starts where this file is"
    )
    max_size: Annotated[ByteSize, between("16MiB", "64TiB")] = Field(
        _size("2GiB"), description="cap on disk; the oldest polls go first"
    )
    history: Annotated[Duration, between("10m", "52w")] = Field(
        timedelta(hours=24), description="how long polls are kept"
    )
    partition_rows_every: Annotated[Duration, between("1s", "1d")] = Field(
        timedelta(seconds=60), description="of rows per partition, history keeps one poll in this time"
    )
    checkpoint_every: Annotated[Duration, between("10s", "1h")] = Field(
        timedelta(minutes=5), description="how often windows and alert timers are saved"
    )

    @field_validator("partition_rows_every", "checkpoint_every")
    @classmethod
    def _fits_in_history(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        history = info.data.get("history")
        if history is not None and value > history:
            raise ValueError(f'"{format_duration(value)}" is longer than history ({format_duration(history)})')
        return value


class Selection(Section):
    """Names by regular expressions, each of which must match the whole name."""

    include: tuple[Regex, ...] = Field(
        (re.compile(".*"),), min_length=1, description="names to watch: regular expressions that match all of it"
    )
    exclude: tuple[Regex, ...] = Field((), description="names to leave out all the same")


_Interval = Annotated[Duration, between("1s", "1d")]
_Every = Annotated[Duration, between("0s", "1d")]


class Intervals(Section):
    """How often each job asks."""

    kafka: _Interval = Field(timedelta(seconds=10), description="groups, committed offsets, ends of partitions")
    configs: _Interval = Field(timedelta(minutes=5), description="configurations of topics")
    logdirs: _Interval = Field(timedelta(minutes=1), description="bytes on the brokers' disks")
    quorum: _Interval = Field(timedelta(seconds=10), description="the controllers' quorum")
    jmx: _Interval = Field(timedelta(seconds=30), description="JMX of brokers and controllers, where it is set")


class ClusterSettings(Section):
    """One Kafka cluster."""

    name: Name = Field(description="its name in metrics, rules and commands", examples=["east"])
    bootstrap: Annotated[tuple[Address, ...], BeforeValidator(split_brokers)] = Field(
        min_length=1,
        description="brokers to ask first, host:port; a list or a,b,c",
        examples=[["kafka1:9092", "kafka2:9092"]],
    )
    security: SecuritySettings = Field(default_factory=SecuritySettings, description="how connections are protected")
    topics: Selection = Field(default_factory=Selection, description="topics to watch")
    groups: Selection = Field(default_factory=Selection, description="consumer groups to watch")
    intervals: Intervals = Field(default_factory=Intervals, description="how often each job asks")
    verdicts: VerdictSettings = Field(default_factory=VerdictSettings, description="how consumers are judged")
    commits: Literal["poll", "topic"] = Field(
        "poll", description="poll, or topic: reads each commit from __consumer_offsets"
    )
    commits_look_back: Annotated[Duration, between("0s", "1d")] = Field(
        timedelta(minutes=10), description="with commits: topic, how far back a start reads it"
    )
    deadline: Annotated[Duration, between("100ms", "10m")] = Field(
        timedelta(seconds=5), description="how long one poll may wait for brokers; below intervals.kafka"
    )
    receive_max: Annotated[ByteSize, between("1MiB", "2047MiB")] = Field(
        _size("100MiB"), description="largest answer taken from a broker"
    )
    jmx: ClusterJmx | None = Field(None, description="JMX of its nodes; without it health comes from Kafka alone")

    @field_validator("deadline")
    @classmethod
    def _ends_before_the_next_poll(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        intervals: Any = info.data.get("intervals")
        if intervals is not None and value >= intervals.kafka:
            interval = format_duration(intervals.kafka)
            raise ValueError(
                f'"{format_duration(value)}" must be below intervals.kafka ({interval}), or polls would overlap'
            )
        return value


class LagTable(Section):
    """Rows of a group on a partition in InfluxDB."""

    every: _Every = Field(timedelta(seconds=30), description="at most one poll in this time")
    rows: Literal["all", "topic", "off"] = Field("all", description="all, topic (sums by group and topic) or off")


class PartitionTable(Section):
    """Rows of partitions in InfluxDB."""

    every: _Every = Field(timedelta(seconds=30), description="at most one poll in this time")
    rows: Literal["all", "off"] = Field("all", description="all or off")


class OtherTable(Section):
    """Rows of another table in InfluxDB."""

    every: _Every = Field(timedelta(0), description="at most one poll in this time; 0s is every poll")
    rows: Literal["all", "off"] = Field("all", description="all or off")


class CommitTable(Section):
    """Single commits in InfluxDB. Those of one poll share its time there, so of a partition's only the last would stay."""

    every: _Every = Field(timedelta(0), description="at most one poll in this time; 0s is every poll")
    rows: Literal["all", "off"] = Field("off", description="all (the last of a partition in each poll) or off")


class InfluxTables(Section):
    """Which rows go to InfluxDB, and how often."""

    consumer_lag: LagTable = Field(default_factory=LagTable, description="lag of a group on a partition")
    topic_partition: PartitionTable = Field(default_factory=PartitionTable, description="offsets of a partition")
    consumer_group: OtherTable = Field(default_factory=OtherTable, description="groups")
    group_member: OtherTable = Field(default_factory=OtherTable, description="members of groups")
    commit: CommitTable = Field(default_factory=CommitTable, description="single commits, where commits: topic is set")
    topic: OtherTable = Field(default_factory=OtherTable, description="topics")
    broker: OtherTable = Field(default_factory=OtherTable, description="brokers")
    broker_request: OtherTable = Field(default_factory=OtherTable, description="times of requests at brokers")
    cluster: OtherTable = Field(default_factory=OtherTable, description="clusters as a whole")
    event: OtherTable = Field(default_factory=OtherTable, description="what changed")
    source: OtherTable = Field(default_factory=OtherTable, description="what was asked, and whether it answered")
    agent: OtherTable = Field(default_factory=OtherTable, description="the agent itself")


class Influxdb(Section):
    """InfluxDB 2.x, where Grafana reads."""

    url: Url = Field(description="its address", examples=["http://localhost:8086"])
    org: Line = Field(description="organisation", examples=["ops"])
    bucket: Line = Field(description="bucket to write to; it must exist", examples=["kafka"])
    token_file: FileWithSecret | None = Field(None, description="file with a token that may write", examples=["token"])
    token: Secret | None = Field(None, description="or the token by a variable", examples=["${INFLUX_TOKEN}"])
    ca_file: ExistingFile | None = Field(
        None, description="who may sign its certificate; default: the system's", examples=["influx-ca.pem"]
    )
    verify_tls: Flag = Field(True, description="whether its certificate is checked")
    proxy: Url | None = Field(None, description="proxy to go through", examples=["http://proxy:3128"])
    timeout: Annotated[Duration, between("100ms", "5m")] = Field(
        timedelta(seconds=10), description="how long one write may take"
    )
    tags: dict[Name, Line] = Field(
        default_factory=dict, description="tags added to every point", examples=[{"site": "eu1"}]
    )
    max_series: Annotated[int, Strict(), Field(ge=1)] = Field(
        1_000_000, description="over it, rows of partitions become sums by topic (told)"
    )
    backlog_rows_a_second: Annotated[int, Strict(), Field(ge=100)] = Field(
        50_000, description="how fast what was kept during an outage is sent"
    )
    bucket_retention: Annotated[Duration, between("1h", "520w")] | None = Field(
        None, description="set on the bucket at first use", examples=["90d"]
    )
    tables: InfluxTables = Field(default_factory=InfluxTables, description="which rows, and how often")

    @field_validator("token")
    @classmethod
    def _has_one_token(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        if value is None and is_known(info, "token_file") and not is_given(info, "token_file"):
            raise ValueError("is missing: give token_file or token")
        return value

    def reveal_token(self) -> str:
        """The token, however it was given."""
        return reveal(self.token, self.token_file) or ""


class Archive(Section):
    """Parquet files, for the nightly reports and for months of history."""

    url: FilePosition = Field(
        description="a folder, or s3://, gs:// or hdfs:// as pyarrow reaches them",
        examples=["/var/lib/lagwatch/archive"],
    )
    retention: Annotated[Duration, between("1d", "520w")] = Field(
        timedelta(days=400), description="how long days are kept"
    )
    partition_rows_every: Annotated[Duration, between("1s", "1h")] = Field(
        timedelta(seconds=60), description="of rows per partition, one poll in this time"
    )


class Settings(Section):
    """The whole file."""

    agent: AgentSettings = Field(default_factory=AgentSettings, description="the agent itself")
    journal: JournalSettings = Field(default_factory=JournalSettings, description="where observations are kept")
    influxdb: Influxdb | None = Field(None, description="where Grafana reads; without it the journal alone is kept")
    archive: Archive | None = Field(None, description="Parquet files for reports")
    jmx: Jmx = Field(default_factory=Jmx, description="the JVM that carries JMX, where a cluster has jmx")
    clusters: tuple[ClusterSettings, ...] = Field(min_length=1, description="the clusters to watch; names must differ")

    @field_validator("clusters")
    @classmethod
    def _jmx_ends_before_the_next_poll(
        cls, value: tuple[ClusterSettings, ...], info: ValidationInfo
    ) -> tuple[ClusterSettings, ...]:
        jmx: Any = info.data.get("jmx")
        for cluster in value:
            if jmx is not None and cluster.jmx is not None and cluster.intervals.jmx <= jmx.deadline:
                interval, deadline = format_duration(cluster.intervals.jmx), format_duration(jmx.deadline)
                raise ValueError(
                    f"cluster {cluster.name}: intervals.jmx ({interval}) must be above jmx.deadline ({deadline}), "
                    "or polls would overlap"
                )
        return value

    def cluster(self, name: str) -> ClusterSettings:
        """The cluster of that name; KeyError with the names there are."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        known = ", ".join(cluster.name for cluster in self.clusters)
        raise KeyError(f"no cluster {name!r} in the configuration (there are: {known})")
