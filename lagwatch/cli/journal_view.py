"""What an agent last saw of a cluster, from its journal: read-only, while the agent writes or when none runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from lagwatch.batch import Batch
from lagwatch.cli.seen import CONFIGS, KAFKA, LOGDIRS, QUORUM, Seen, pick_cluster
from lagwatch.clock import Clock, SystemClock
from lagwatch.journal import JournalReader, Poll, reading
from lagwatch.text import duration_text

_SOURCES = {KAFKA, CONFIGS, QUORUM, LOGDIRS}
_STEP_POLLS = 500
_LOOK_BACK_POLLS = 4000  # of all clusters together; a slow job may have run only once in so many
_READ_BYTES = 256 * 2**20
_MISSED_POLLS = 3  # so many intervals without a poll mean that nobody polls
_GRACE_SECONDS = 10.0
_UNKNOWN_INTERVAL_SECONDS = 60.0


@dataclass(slots=True)
class _Runs:
    """In which polls each job of a cluster last ran, and last ran well; times of the Kafka job, newest first."""

    newest: dict[str, int] = field(default_factory=dict)
    good: dict[str, int] = field(default_factory=dict)
    kafka_ms: list[int] = field(default_factory=list)

    def take(self, poll: Poll) -> None:
        """Take in a poll older than those before it."""
        for batch in poll.batches:
            source = batch.rows["source"][0].as_py() if len(batch) else ""
            self.newest.setdefault(source, poll.poll)
            if any(row["target"] == "" and row["up"] for row in batch.rows.to_pylist()):
                self.good.setdefault(source, poll.poll)
            if source == KAFKA:
                self.kafka_ms.append(batch.at_ms)

    @property
    def known(self) -> bool:
        """Whether looking further back would tell nothing more."""
        return self.good.keys() >= _SOURCES and len(self.kafka_ms) > 1


def see_journal(path: Path, cluster: str | None, tables: Collection[str], clock: Clock | None = None) -> Seen:
    """The newest of these tables, with the sources. Raises LagwatchError when there is nothing to read."""
    clock = clock or SystemClock()
    reader = JournalReader(path, clock)
    clusters = [name for name in reader.latest("source") if name]  # without a name: the agent's own sinks
    name = pick_cluster(sorted(clusters), cluster, str(path))
    runs = _look_back(reader, name)
    batches: list[Batch] = []
    # What a failed run does not repeat (brokers, the controller) is shown as the last good one had it.
    for number in sorted({*runs.good.values(), *runs.newest.values()}):
        for poll in _read(reader, number - 1, number, name, {*tables, "source"}):
            batches += [batch for batch in poll.batches if not _is_past_source(batch, number, runs)]
    if "group_member" in tables:  # written only when members change
        batches += reader.latest("group_member", name).values()
    now_ms = clock.wall_ms()
    overdue = _overdue(runs.kafka_ms, now_ms)
    return Seen(name, now_ms, batches, from_journal=True, followed_seconds=float("inf"), overdue=overdue)


def newest_poll(reader: JournalReader) -> int:
    """The number of the newest poll; 0 when there is none."""
    with reader.connection() as connection:
        return reading.newest_poll(connection)


def _look_back(reader: JournalReader, cluster: str) -> _Runs:
    """Only the small `source` rows are read to find out which polls to read whole."""
    runs = _Runs()
    high = newest_poll(reader)
    oldest = max(0, high - _LOOK_BACK_POLLS)
    while high > oldest and not runs.known:
        low = max(oldest, high - _STEP_POLLS)
        for poll in reversed(_read(reader, low, high, cluster, {"source"})):
            runs.take(poll)
        high = low
    return runs


def _read(reader: JournalReader, after: int, through: int, cluster: str, tables: Collection[str]) -> list[Poll]:
    return reader.read(
        after,
        through_poll=through,
        limit_bytes=_READ_BYTES,
        limit_polls=_STEP_POLLS,
        tables=tables,
        clusters={cluster},
    )


def _is_past_source(batch: Batch, poll: int, runs: _Runs) -> bool:
    return batch.table == "source" and len(batch) > 0 and runs.newest[batch.rows["source"][0].as_py()] != poll


def _overdue(kafka_ms: list[int], now_ms: int) -> str | None:
    """Why everything is old: no poll for several times the interval they used to come in."""
    if not kafka_ms:
        return "the journal holds no poll of this cluster"
    gaps = [(later - earlier) / 1000 for later, earlier in pairwise(kafka_ms)]
    interval = median(gaps) if gaps else _UNKNOWN_INTERVAL_SECONDS
    age = (now_ms - kafka_ms[0]) / 1000
    if age <= _MISSED_POLLS * interval + _GRACE_SECONDS:
        return None
    return f"the newest poll is {duration_text(age)} old: is the agent running?"
