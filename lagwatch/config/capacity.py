"""How much a configuration will write: counts and settings enter; series, bytes a day and the journal's size leave.

Tables that get a row only when something changes (events, group members) are not counted: they are small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from lagwatch.config.settings import ClusterSettings, Settings
from lagwatch.config.units import format_duration
from lagwatch.text import duration_text, size_text

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of a batch without rows (an Arrow stream carries its schema), and of each row in it."""

    batch: float
    row: float


# Measured with batch.make_batch and batch.encode_rows (one zstd frame, level 3): one row against 1,000 to 100,000 rows of
# random offsets up to 1e10, half of the groups a few seconds behind; 6 to 50 rows for brokers and sources.
COSTS: Mapping[str, Cost] = {
    "consumer_lag": Cost(batch=900, row=9.7),
    "commit": Cost(batch=400, row=5),
    "consumer_group": Cost(batch=1200, row=25),
    "topic_partition": Cost(batch=650, row=21),
    "topic": Cost(batch=600, row=29),
    "broker": Cost(batch=570, row=30),
    "broker_request": Cost(batch=650, row=60),
    "cluster": Cost(batch=650, row=0),
    "source": Cost(batch=520, row=15),
    "agent": Cost(batch=570, row=16),
}
JMX_OF_BROKERS = Cost(batch=3200, row=350)  # some 115 columns of `broker`
REQUESTS_A_BROKER = 10
BATCH_OVERHEAD = 165  # row header, key columns and index of SQLite for one batch, as measured over 40 polls
FULL_RATE_CHECKPOINTS = 2  # partition rows are thinned only once a checkpoint after them is safe: a start replays them
CHECKPOINT_BYTES = 60  # of a group-partition in a checkpoint; 45 measured after 30 polls, a third more for full windows
CHECKPOINTS_KEPT = 2
AGENT_ROWS_EVERY = timedelta(seconds=30)  # the agent's upkeep writes them, whatever the clusters' intervals are
COMMITS_EVERY = timedelta(seconds=5)  # what Kafka's consumers do unless they are told otherwise
JOBS = 6  # kafka, configs, logdirs, quorum, times, markers: each has a row in `source` and in `agent`


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is to watch in one cluster."""

    groups: int = 0
    group_partitions: int = 0
    topics: int = 0
    partitions: int = 0
    brokers: int = 0


@dataclass(frozen=True, slots=True)
class TableSize:
    """What one table of one cluster comes to."""

    cluster: str  # empty for the agent's own
    table: str
    series: int
    rows_a_day: int
    bytes_a_day: int  # written to the journal
    kept_bytes: int  # in the journal once `history` has passed


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the whole configuration comes to."""

    tables: tuple[TableSize, ...]
    cap_bytes: int

    @property
    def series(self) -> int:
        """Series in InfluxDB."""
        return sum(table.series for table in self.tables)

    @property
    def bytes_a_day(self) -> int:
        """Bytes written to the journal each day."""
        return sum(table.bytes_a_day for table in self.tables)

    @property
    def kept_bytes(self) -> int:
        """Size of the journal once `history` has passed."""
        return sum(table.kept_bytes for table in self.tables)

    @property
    def fits(self) -> bool:
        """Whether the history fits the journal's cap."""
        return self.kept_bytes <= self.cap_bytes


_Row = tuple[str, Callable[[Counts], int], Callable[[ClusterSettings], timedelta], bool]
_ROWS: tuple[_Row, ...] = (  # table, rows of one poll, how often, whether history thins it
    ("consumer_lag", lambda n: n.group_partitions, lambda c: c.intervals.kafka, True),
    ("topic_partition", lambda n: n.partitions, lambda c: c.intervals.kafka, True),
    ("consumer_group", lambda n: n.groups, lambda c: c.intervals.kafka, False),
    ("topic", lambda n: n.topics, lambda c: c.intervals.configs, False),
    ("broker", lambda n: n.brokers, lambda c: c.intervals.kafka, False),
    ("cluster", lambda _: 1, lambda c: c.intervals.kafka, False),
    ("source", lambda n: JOBS + n.brokers, lambda c: c.intervals.kafka, False),
)


def expect(settings: Settings, counts: Mapping[str, Counts]) -> Sizes:
    """What to expect of the clusters that have counts, by name."""
    tables: list[TableSize] = []
    for cluster in settings.clusters:
        count = counts.get(cluster.name)
        if count is None:
            continue
        for table, rows, every, thinned in _ROWS:
            tables.append(_table(settings, cluster.name, table, rows(count), every(cluster), thinned=thinned))
        if cluster.commits == "topic":
            interval = cluster.intervals.kafka
            made = round(count.group_partitions * (interval / COMMITS_EVERY))
            size = _table(settings, cluster.name, "commit", made, interval, thinned=True)
            tables.append(replace(size, series=0))  # not sent to InfluxDB unless asked for
        tables += _of_jmx(settings, cluster, count)
        kept = CHECKPOINTS_KEPT * CHECKPOINT_BYTES * count.group_partitions
        a_day = round(kept / CHECKPOINTS_KEPT * (DAY / settings.journal.checkpoint_every))
        tables.append(TableSize(cluster.name, "(checkpoints)", 0, 0, a_day, kept))
    tables.append(_table(settings, "", "agent", JOBS * len(settings.clusters) + 1, AGENT_ROWS_EVERY, thinned=False))
    return Sizes(tuple(table for table in tables if table.bytes_a_day), settings.journal.max_size)


def _of_jmx(settings: Settings, cluster: ClusterSettings, count: Counts) -> list[TableSize]:
    """What JMX adds. Its part of `broker` makes no series of its own."""
    if cluster.jmx is None:
        return []
    nodes, every = count.brokers + len(cluster.jmx.controllers), cluster.intervals.jmx
    requests = count.brokers * REQUESTS_A_BROKER
    of_brokers = _table(settings, cluster.name, "broker", nodes, every, thinned=False, cost=JMX_OF_BROKERS)
    return [
        replace(of_brokers, table="(broker, by JMX)", series=0),
        _table(settings, cluster.name, "broker_request", requests, every, thinned=False),
    ]


def _table(
    settings: Settings,
    cluster: str,
    table: str,
    rows: int,
    every: timedelta,
    *,
    thinned: bool,
    cost: Cost | None = None,
) -> TableSize:
    journal = settings.journal
    cost = cost or COSTS[table]
    one_poll = BATCH_OVERHEAD + cost.batch + rows * cost.row if rows else 0.0
    kept_polls = journal.history / every
    if thinned and journal.partition_rows_every > every:
        full_rate = min(FULL_RATE_CHECKPOINTS * journal.checkpoint_every, journal.history)
        kept_polls = full_rate / every + (journal.history - full_rate) / journal.partition_rows_every
    polls = DAY / every
    return TableSize(cluster, table, rows, round(rows * polls), round(one_poll * polls), round(one_poll * kept_polls))


def per_thousand(settings: Settings, cluster: str) -> tuple[int, int]:
    """Bytes written a day, and kept, for each 1,000 group-partitions more."""
    few, many = (expect(settings, {cluster: Counts(group_partitions=n)}) for n in (100_000, 101_000))
    return many.bytes_a_day - few.bytes_a_day, many.kept_bytes - few.kept_bytes


def judge(settings: Settings, counts: Mapping[str, Counts]) -> str:
    """One sentence: whether the history fits its cap and, if it does not, what would."""
    sizes = expect(settings, counts)
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
_CHOICES: Mapping[str, tuple[timedelta, ...]] = {  # the least change first
    "history": tuple(timedelta(hours=n) for n in _HOURS),
    "partition_rows_every": tuple(timedelta(minutes=n) for n in _MINUTES),
}


def _fits_with(settings: Settings, counts: Mapping[str, Counts], key: str, value: timedelta) -> bool:
    journal = settings.journal.model_copy(update={key: value})
    if journal.partition_rows_every > journal.history:
        return False
    return expect(settings.model_copy(update={"journal": journal}), counts).fits
