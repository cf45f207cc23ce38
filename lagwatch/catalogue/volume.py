"""How many rows a table gets and what they cost: declared on each table.

`config check`, docs/metrics.md and the settings under `influxdb.tables` derive from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

JOBS_PER_CLUSTER = 7  # the jobs without JMX; each has a row in `source` and in `agent`


@dataclass(frozen=True, slots=True)
class ObjectCounts:
    """The numbers of Kafka objects that the number of rows depends on."""

    groups: int = 0
    group_topics: int = 0
    group_partitions: int = 0
    members: int = 0
    topics: int = 0
    partitions: int = 0
    brokers: int = 0
    controllers: int = 0  # with a JMX port in the configuration
    clusters: int = 1


class Cadence(Enum):
    """When a table gets rows. KAFKA, CONFIGS and JMX are keys of `clusters[].intervals`."""

    KAFKA = "kafka"
    CONFIGS = "configs"
    COMMITS = "commits"  # `rows` once per consumer commit, where the offsets topic is read
    JMX = "jmx"  # only where the cluster has `jmx`
    AGENT = "agent"  # the agent's own interval, the same for all clusters
    CHANGES = "changes"  # only when something changes: too few rows to estimate


@dataclass(frozen=True, slots=True)
class Cost:
    """Journal bytes of a batch without rows (an Arrow stream carries its schema), and of each row in it.

    Measured with batch.make_batch and batch.encode_rows (one zstd frame, level 3): one row against 1,000 to 100,000
    rows of random offsets up to 1e10, half of the groups a few seconds behind; 6 to 50 rows for brokers and sources.
    """

    batch: float
    row: float


@dataclass(frozen=True, slots=True)
class Volume:
    """The rows one job writes to a table: how many per run, how often, at what cost."""

    cadence: Cadence
    rows: Callable[[ObjectCounts], int]
    cost: Cost | None = None  # None: not counted, because the rows are few or not in the journal
    series: str = ""  # the number of series in words, for docs/metrics.md; empty when these rows add none
    series_count: Callable[[ObjectCounts], int] | None = None  # where it differs from `rows`

    def count_series(self, counts: ObjectCounts) -> int:
        """The number of InfluxDB series."""
        return (self.series_count or self.rows)(counts)


@dataclass(frozen=True, slots=True)
class InfluxDefaults:
    """The choices and defaults of a table's key under `influxdb.tables`."""

    every_seconds: int = 0
    rows: str = "all"
    choices: tuple[str, ...] = ("all", "off")
    choices_help: str = "all or off"
