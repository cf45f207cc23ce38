"""Estimates how much a configuration writes: series, bytes per day and the size of the journal.

The rows come from the catalogue (`Table.volumes`). Tables that get rows only on changes are too small to count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta

from lagwatch.catalogue import BUILT_IN, Table
from lagwatch.catalogue.volume import Cadence, Cost, ObjectCounts, Volume
from lagwatch.config.settings import ClusterSettings, JournalSettings, Settings
from lagwatch.config.units import format_duration
from lagwatch.journal import CHECKPOINTS_KEPT
from lagwatch.text import duration_text, size_text

DAY = timedelta(days=1)
BATCH_OVERHEAD = 165  # row header, key columns and index of SQLite for one batch, measured over 40 polls
CHECKPOINT_BYTES = 60  # per group-partition in a checkpoint; 45 measured after 30 polls, a third more for full windows
AGENT_ROWS_EVERY = timedelta(seconds=30)  # the agent's own interval, independent of the clusters' intervals
COMMITS_EVERY = timedelta(seconds=5)  # auto.commit.interval.ms of Kafka consumers, by default


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of objects to watch in one cluster."""

    groups: int = 0
    group_partitions: int = 0
    topics: int = 0
    partitions: int = 0
    brokers: int = 0


@dataclass(frozen=True, slots=True)
class TableSize:
    """The estimate for one table of one cluster."""

    cluster: str  # empty for the agent table
    table: str
    series: int
    rows_a_day: int
    bytes_a_day: int  # written to the journal
    kept_bytes: int  # in the journal after `history` has passed


@dataclass(frozen=True, slots=True)
class Sizes:
    """The estimate for the whole configuration."""

    tables: tuple[TableSize, ...]
    cap_bytes: int

    @property
    def series(self) -> int:
        """Series in InfluxDB."""
        return sum(table.series for table in self.tables)

    @property
    def bytes_a_day(self) -> int:
        """Bytes written to the journal per day."""
        return sum(table.bytes_a_day for table in self.tables)

    @property
    def kept_bytes(self) -> int:
        """Size of the journal after `history` has passed."""
        return sum(table.kept_bytes for table in self.tables)

    @property
    def fits(self) -> bool:
        """Whether the history fits into `journal.max_size`."""
        return self.kept_bytes <= self.cap_bytes


_OPTIONAL = (Cadence.COMMITS, Cadence.JMX)  # printed last, in this order


def _print_order(entry: tuple[Table, Volume]) -> tuple[int, bool]:
    table, volume = entry
    return (_OPTIONAL.index(volume.cadence) + 1 if volume.cadence in _OPTIONAL else 0), not table.per_partition


_VOLUMES = sorted(((table, volume) for table in BUILT_IN for volume in table.volumes), key=_print_order)


def estimate(settings: Settings, counts: Mapping[str, Counts]) -> Sizes:
    """Estimate the clusters that have counts, by name."""
    sizes: list[TableSize] = []
    for cluster in settings.clusters:
        if cluster.name in counts:
            sizes += _cluster_sizes(settings.journal, cluster, counts[cluster.name])
    objects = ObjectCounts(clusters=len(settings.clusters))
    for table, volume in _VOLUMES:
        if volume.cadence is Cadence.AGENT and volume.cost:
            rows = volume.rows(objects)
            sizes.append(_table_size(settings.journal, "", table, rows, AGENT_ROWS_EVERY, volume.cost, series=rows))
    return Sizes(tuple(size for size in sizes if size.bytes_a_day), settings.journal.max_size)


def _cluster_sizes(journal: JournalSettings, cluster: ClusterSettings, count: Counts) -> list[TableSize]:
    objects = ObjectCounts(**asdict(count), controllers=len(cluster.jmx.controllers) if cluster.jmx else 0)
    sizes: list[TableSize] = []
    for table, volume in _VOLUMES:
        every = _interval(cluster, volume.cadence)
        if every is None or volume.cost is None:
            continue
        rows = volume.rows(objects)
        if volume.cadence is Cadence.COMMITS:
            rows = round(rows * (every / COMMITS_EVERY))
        in_influx = volume.series and table.influx and table.influx.rows != "off"
        size = _table_size(journal, cluster.name, table, rows, every, volume.cost, series=rows if in_influx else 0)
        sizes.append(size if volume.series else replace(size, table=f"({table.name}, by JMX)"))
    kept = CHECKPOINTS_KEPT * CHECKPOINT_BYTES * count.group_partitions
    a_day = round(kept / CHECKPOINTS_KEPT * (DAY / journal.checkpoint_every))
    return [*sizes, TableSize(cluster.name, "(checkpoints)", 0, 0, a_day, kept)]


def _interval(cluster: ClusterSettings, cadence: Cadence) -> timedelta | None:
    """The interval of the job that writes at this cadence; None where no job of the cluster does."""
    match cadence:
        case Cadence.KAFKA:
            return cluster.intervals.kafka
        case Cadence.CONFIGS:
            return cluster.intervals.configs
        case Cadence.COMMITS:
            return cluster.intervals.kafka if cluster.commits != "poll" else None
        case Cadence.JMX:
            return cluster.intervals.jmx if cluster.jmx else None
        case Cadence.AGENT | Cadence.CHANGES:
            return None


def _table_size(
    journal: JournalSettings,
    cluster: str,
    table: Table,
    rows: int,
    every: timedelta,
    cost: Cost,
    *,
    series: int,
) -> TableSize:
    one_poll = BATCH_OVERHEAD + cost.batch + rows * cost.row if rows else 0.0
    kept_polls = journal.history / every
    if table.per_partition and journal.partition_rows_every > every:
        full_rate = min(CHECKPOINTS_KEPT * journal.checkpoint_every, journal.history)
        kept_polls = full_rate / every + (journal.history - full_rate) / journal.partition_rows_every
    polls = DAY / every
    written, kept = round(one_poll * polls), round(one_poll * kept_polls)
    return TableSize(cluster, table.name, series, round(rows * polls), written, kept)


def per_thousand(settings: Settings, cluster: str) -> tuple[int, int]:
    """Bytes written per day, and bytes kept, for each additional 1,000 group-partitions."""
    few, many = (estimate(settings, {cluster: Counts(group_partitions=n)}) for n in (100_000, 101_000))
    return many.bytes_a_day - few.bytes_a_day, many.kept_bytes - few.kept_bytes


def describe_fit(settings: Settings, counts: Mapping[str, Counts]) -> str:
    """One sentence: whether the history fits `journal.max_size` and, if not, which settings would fit."""
    sizes = estimate(settings, counts)
    journal = settings.journal
    history, cap = duration_text(journal.history.total_seconds()), size_text(journal.max_size)
    needs = f"a history of {history} needs about {size_text(sizes.kept_bytes)} of the {cap} in journal.max_size"
    if sizes.fits:
        return f"{needs}: it fits"
    gib = -(-sizes.kept_bytes * 12 // 10 // 2**30)
    ways = [f"max_size: {gib}GiB"]
    for key, choices in _CHOICES.items():
        better = [choice for choice in choices if _fits_with(settings, counts, key, choice)]
        if better:
            ways.append(f"{key}: {format_duration(better[0])}")
    return f"{needs}: it does not fit; set journal.{', or '.join(ways)}"


_HOURS = (336, 168, 72, 48, 24, 12, 6, 3, 1)
_MINUTES = (1, 2, 5, 10, 15, 30, 60)
_CHOICES: Mapping[str, tuple[timedelta, ...]] = {  # the smallest change first
    "history": tuple(timedelta(hours=n) for n in _HOURS),
    "partition_rows_every": tuple(timedelta(minutes=n) for n in _MINUTES),
}


def _fits_with(settings: Settings, counts: Mapping[str, Counts], key: str, value: timedelta) -> bool:
    journal = settings.journal.model_copy(update={key: value})
    if journal.partition_rows_every > journal.history:
        return False
    return estimate(settings.model_copy(update={"journal": journal}), counts).fits
