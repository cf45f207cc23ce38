"""The settings as frozen models. The description of a field is its help text, in `config example` and in the docs.

A field with `examples` has no useful default: `config example` prints the example, commented out unless required.
"""

from __future__ import annotations

import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict, ValidationInfo, create_model, field_validator

from lagwatch.catalogue import BUILT_IN
from lagwatch.catalogue.volume import InfluxDefaults
from lagwatch.config.jmx import ClusterJmx, Jmx
from lagwatch.config.section import Section, is_set, is_valid
from lagwatch.config.security import SecuritySettings, refuse_both, reveal
from lagwatch.config.units import format_duration, parse_size
from lagwatch.config.values import (
    Address,
    AnyPath,
    ByteSize,
    Duration,
    ExistingFile,
    FileWithSecret,
    Flag,
    Line,
    Name,
    Regex,
    Secret,
    Size,
    StorageUrl,
    Url,
    between,
    split_brokers,
)
from lagwatch.config.verdicts import VerdictSettings


def _size(text: str) -> Size:
    return Size(parse_size(text))


class AgentSettings(Section):
    """The agent."""

    name: Name = Field(
        default_factory=lambda: socket.gethostname() or "lagwatch",
        description="name of the agent in its metrics; default: the host name",
        examples=["ops-1"],
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="debug, info, warning or error")


class JournalSettings(Section):
    """The local store of all polls, which the sinks read."""

    path: AnyPath = Field(
        Path("lagwatch-data/journal.db"), description="SQLite file; relative to the directory of this file"
    )
    max_size: Annotated[ByteSize, between("16MiB", "64TiB")] = Field(
        _size("2GiB"), description="size limit; above it the oldest polls are deleted"
    )
    history: Annotated[Duration, between("10m", "52w")] = Field(
        timedelta(hours=24), description="how long to keep polls"
    )
    partition_rows_every: Annotated[Duration, between("1s", "1d")] = Field(
        timedelta(seconds=60), description="history keeps one poll of partition rows per interval"
    )
    checkpoint_every: Annotated[Duration, between("10s", "1h")] = Field(
        timedelta(minutes=5), description="how often to save the state that a restart needs"
    )

    @field_validator("partition_rows_every", "checkpoint_every")
    @classmethod
    def _fits_in_history(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        history = info.data.get("history")
        if history is not None and value > history:
            raise ValueError(f'"{format_duration(value)}" is longer than history ({format_duration(history)})')
        return value


class Selection(Section):
    """Names to watch. Each regular expression must match the whole name."""

    include: tuple[Regex, ...] = Field(
        (re.compile(".*"),), min_length=1, description="regular expressions; each must match the whole name"
    )
    exclude: tuple[Regex, ...] = Field((), description="names to exclude, even if included above")


_Interval = Annotated[Duration, between("1s", "1d")]
_Every = Annotated[Duration, between("0s", "1d")]


class Intervals(Section):
    """How often each job polls."""

    kafka: _Interval = Field(timedelta(seconds=10), description="groups, committed offsets, end offsets")
    configs: _Interval = Field(timedelta(minutes=5), description="topic configurations")
    logdirs: _Interval = Field(timedelta(minutes=1), description="sizes of log directories")
    quorum: _Interval = Field(timedelta(seconds=10), description="state of the controller quorum")
    jmx: _Interval = Field(timedelta(seconds=30), description="JMX of brokers and controllers, if configured")


class ClusterSettings(Section):
    """One Kafka cluster."""

    name: Name = Field(description="name of the cluster in metrics, rules and commands", examples=["east"])
    bootstrap: Annotated[tuple[Address, ...], BeforeValidator(split_brokers)] = Field(
        min_length=1,
        description="bootstrap brokers, host:port; a list or a,b,c",
        examples=[["kafka1:9092", "kafka2:9092"]],
    )
    security: SecuritySettings = Field(default_factory=SecuritySettings, description="TLS and SASL")
    topics: Selection = Field(default_factory=Selection, description="topics to watch")
    groups: Selection = Field(default_factory=Selection, description="consumer groups to watch")
    intervals: Intervals = Field(default_factory=Intervals, description="how often each job polls")
    verdicts: VerdictSettings = Field(
        default_factory=VerdictSettings, description="how the status of consumers is evaluated"
    )
    commits: Literal["auto", "poll", "topic"] = Field(
        "auto", description="topic (__consumer_offsets), poll, or auto: topic if allowed"
    )
    commits_look_back: Annotated[Duration, between("0s", "1d")] = Field(
        timedelta(minutes=10), description="how far back to read __consumer_offsets at start"
    )
    deadline: Annotated[Duration, between("100ms", "10m")] = Field(
        timedelta(seconds=5), description="timeout of one poll; must be below intervals.kafka"
    )
    receive_max: Annotated[ByteSize, between("1MiB", "2047MiB")] = Field(
        _size("100MiB"), description="largest response accepted from a broker"
    )
    jmx: ClusterJmx | None = Field(None, description="JMX of the nodes; without it health comes from Kafka only")

    @field_validator("deadline")
    @classmethod
    def _deadline_below_interval(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        intervals: Any = info.data.get("intervals")
        if intervals is not None and value >= intervals.kafka:
            interval = format_duration(intervals.kafka)
            raise ValueError(
                f'"{format_duration(value)}" must be below intervals.kafka ({interval}), or polls would overlap'
            )
        return value


def _influx_table(name: str, defaults: InfluxDefaults) -> type[Section]:
    """The section of one table: an interval and the rows to write."""
    every = Field(
        timedelta(seconds=defaults.every_seconds),
        description="at most one poll per interval" + ("" if defaults.every_seconds else "; 0s is every poll"),
    )
    choices: Any = Literal[defaults.choices]
    rows = Field(defaults.rows, description=defaults.choices_help)
    return create_model(f"InfluxTable_{name}", __base__=Section, every=(_Every, every), rows=(choices, rows))


def _influx_tables() -> type[Section]:
    """One key per table of the catalogue; those written less often than polled, which are the largest, come first."""
    keys: dict[str, Any] = {}
    written = [(table, table.influx) for table in BUILT_IN if table.influx]
    for table, defaults in sorted(written, key=lambda item: -item[1].every_seconds):
        section = _influx_table(table.name, defaults)
        keys[table.name] = (section, Field(default_factory=section, description=table.summary))
    return create_model("InfluxTables", __base__=Section, **keys)


if TYPE_CHECKING:

    class InfluxTables(Section):
        """Which rows to write to InfluxDB, and how often: the keys are those of the catalogue."""

else:
    InfluxTables = _influx_tables()


class Influxdb(Section):
    """InfluxDB 2.x, the data source of the Grafana dashboards."""

    url: Url = Field(description="URL of InfluxDB", examples=["http://localhost:8086"])
    org: Line = Field(description="organisation", examples=["ops"])
    bucket: Line = Field(description="bucket; must exist", examples=["kafka"])
    token_file: FileWithSecret | None = Field(
        None, description="file with a token that can write to the bucket", examples=["token"]
    )
    token: Secret | None = Field(None, description="or the token from a variable", examples=["${INFLUX_TOKEN}"])
    ca_file: ExistingFile | None = Field(
        None, description="CA certificates (PEM); default: those of the system", examples=["influx-ca.pem"]
    )
    verify_tls: Flag = Field(True, description="whether to verify the certificate")
    proxy: Url | None = Field(None, description="HTTP proxy", examples=["http://proxy:3128"])
    timeout: Annotated[Duration, between("100ms", "5m")] = Field(
        timedelta(seconds=10), description="timeout of one write"
    )
    tags: dict[Name, Line] = Field(
        default_factory=dict, description="tags to add to every point", examples=[{"site": "eu1"}]
    )
    max_series: Annotated[int, Strict(), Field(ge=1)] = Field(
        1_000_000, description="limit; above it, sums by topic replace partition rows (logged)"
    )
    backlog_rows_a_second: Annotated[int, Strict(), Field(ge=100)] = Field(
        50_000, description="rate limit for the backlog after an outage"
    )
    bucket_retention: Annotated[Duration, between("1h", "520w")] | None = Field(
        None, description="retention to set on the bucket at first use", examples=["90d"]
    )
    tables: InfluxTables = Field(default_factory=InfluxTables, description="which rows to write, and how often")

    @field_validator("token")
    @classmethod
    def _has_one_token(cls, value: Any, info: ValidationInfo) -> Any:
        refuse_both(value, info)
        if value is None and is_valid(info, "token_file") and not is_set(info, "token_file"):
            raise ValueError("is missing: set token_file or token")
        return value

    def reveal_token(self) -> str:
        """The token, from either key."""
        return reveal(self.token, self.token_file) or ""


class Archive(Section):
    """Parquet files for nightly reports and months of history."""

    url: StorageUrl = Field(
        description="a folder, or an s3://, gs:// or hdfs:// URL for pyarrow",
        examples=["/var/lib/lagwatch/archive"],
    )
    retention: Annotated[Duration, between("1d", "520w")] = Field(
        timedelta(days=400), description="how long to keep each day"
    )
    partition_rows_every: Annotated[Duration, between("1s", "1h")] = Field(
        timedelta(seconds=60), description="archive one poll of partition rows per interval"
    )


class Settings(Section):
    """The whole file."""

    agent: AgentSettings = Field(default_factory=AgentSettings, description="the agent")
    journal: JournalSettings = Field(default_factory=JournalSettings, description="local store of all polls")
    influxdb: Influxdb | None = Field(None, description="data source of the dashboards; default: journal only")
    archive: Archive | None = Field(None, description="Parquet files for reports")
    jmx: Jmx = Field(default_factory=Jmx, description="the JVM for JMX, if a cluster has jmx")
    clusters: tuple[ClusterSettings, ...] = Field(min_length=1, description="clusters to watch; names must be unique")

    @field_validator("clusters")
    @classmethod
    def _jmx_deadline_below_interval(
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
        """The cluster of that name. Raises KeyError with the names in the configuration."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        known = ", ".join(cluster.name for cluster in self.clusters)
        raise KeyError(f'no cluster "{name}" in the configuration (there are: {known})')
