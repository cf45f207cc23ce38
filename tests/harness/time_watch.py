"""Time lags of a real cluster: the Kafka job and timestamp queries with a history, like in the pipeline."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collectors.kafka_client.connection import ConnectionOptions, KafkaConnection
from collectors.kafka_poll import KafkaPoll
from collectors.kafka_timestamps import KafkaTimestamps
from lagwatch.batch import Batch
from lagwatch.broker_queries import TimestampQuery
from lagwatch.columns import Names, find, numbers_of, partition_keys, texts_of
from lagwatch.protocols import Collected
from lagwatch.time_lag import EndHistory, SelectedTimestamps, TimeLag, pack, read_between, unpack

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answered:
    """One poll: the offsets of groups, and the time lags at `now_ms`."""

    now_ms: int
    group: list[str]
    topic: list[str]
    committed: Ints
    end: Ints
    lag: TimeLag


class TimeWatch:
    """Polls a cluster for groups and topics with a common prefix."""

    def __init__(self, bootstrap: str, prefix: str, poll_ms: int) -> None:
        self._connections = [KafkaConnection(ConnectionOptions(tuple(bootstrap.split(",")))) for _ in range(2)]
        self._poll = KafkaPoll(
            "east", self._connections[0], topics=lambda t: t.startswith(prefix), groups=lambda g: g.startswith(prefix)
        )
        self._times = KafkaTimestamps(self._connections[1], next_query=self._take_wanted)
        self._topics = Names()
        self._poll_ms = poll_ms
        self._wanted: TimestampQuery | None = None
        self.history = EndHistory()
        self.queries = 0
        self.queried: Counter[str] = Counter()
        self.failures: list[str] = []

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def restart(self) -> None:
        """Restart from a checkpoint."""
        packed = pack(self.history, lambda number: (self._topics.name(number), "id"))
        self.history = EndHistory()
        unpack(packed, self.history, lambda topic, _: int(self._topics.numbers([topic])[0]))

    def poll(self) -> Answered:
        """Run the pending queries, then poll; results are as of the end of the poll."""
        self._observe_times()
        began_ms = _now_ms()
        collected = self._poll.collect(began_ms)
        self.failures += [failure.reason for failure in collected.failures]
        batches = {batch.table: batch for batch in collected.batches}
        keys, end = self._observe_ends(batches["topic_partition"], collected, began_ms)
        lags = batches["consumer_lag"].rows
        group, topic = texts_of(lags, "group"), texts_of(lags, "topic")
        mine = self._keys(batches["consumer_lag"])
        order = np.argsort(keys)
        at, found = find(keys[order], mine)
        assert found.all()
        committed, ends = numbers_of(lags, "committed_offset").values, end[order][at]
        now_ms = _now_ms()
        lag = self.history.lag_of(mine, committed, ends, now_ms)
        wanted = self.history.next_queries(mine, committed, lag, now_ms, poll_ms=self._poll_ms, limit=100)
        self._wanted = self._named(wanted, batches["topic_partition"], keys)
        return Answered(
            now_ms, [group.values[c] for c in group.codes], [topic.values[c] for c in topic.codes], committed, ends, lag
        )

    def _observe_times(self) -> None:
        collected = self._times.collect(_now_ms())
        self.failures += [failure.reason for failure in collected.failures]
        if collected.timestamp_answers is not None:
            self.queries += len(collected.timestamp_answers)
            self.history.observe_timestamps(collected.timestamp_answers, _now_ms())

    def _observe_ends(self, batch: Batch, collected: Collected, began_ms: int) -> tuple[Ints, Ints]:
        end, leader = numbers_of(batch.rows, "log_end_offset"), numbers_of(batch.rows, "leader").values
        known = np.flatnonzero(end.known)
        keys = self._keys(batch)[known]
        sent, received = read_between(leader[known], collected.ends_read, began_ms, _now_ms())
        self.history.observe(keys, end.values[known], sent, received)
        return keys, end.values[known]

    def _keys(self, batch: Batch) -> Ints:
        topic = texts_of(batch.rows, "topic")
        return partition_keys(
            self._topics.numbers(topic.values)[topic.codes], numbers_of(batch.rows, "partition").values
        )

    def _named(self, wanted: SelectedTimestamps, batch: Batch, keys: Ints) -> TimestampQuery:
        topic, order = texts_of(batch.rows, "topic"), np.argsort(keys)
        row = order[find(keys[order], wanted.key)[0]]
        partition, leader = (
            numbers_of(batch.rows, name).values[row].astype(np.int32) for name in ("partition", "leader")
        )
        named = type(topic)(topic.codes[row], topic.values)
        return TimestampQuery(named, partition, leader, wanted.key, wanted.target_ms, wanted.end)

    def _take_wanted(self) -> TimestampQuery | None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self.queried.update(wanted.topic.values[code] for code in wanted.topic.codes)
        return wanted


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
