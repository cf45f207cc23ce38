"""Estimates when the records of a cluster were written, from its end offsets over time, and queues timestamp queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch
from lagwatch.broker_queries import MAX_TIMESTAMP_QUERIES, TimestampAnswers, TimestampQuery
from lagwatch.columns import numbers_of, split_group_keys
from lagwatch.pipeline.queries.mailbox import LatestValue
from lagwatch.pipeline.state.partitions import PartitionState
from lagwatch.time_lag import EndHistory, SelectedTimestamps, TimeLag, pack, read_between, unpack

TABLE = "end_history"
_BUDGET_BYTES = 8 * 1024 * 1024  # for the points of partitions with lag
TimestampQueries = LatestValue[TimestampQuery]


class WriteTimes:
    """Tracks the end offsets of one cluster's partitions over time."""

    def __init__(self, partitions: PartitionState, *, poll_ms: int = 10_000) -> None:
        self.queries = TimestampQueries()
        self._partitions = partitions
        self._history = EndHistory(budget_bytes=_BUDGET_BYTES)
        self.poll_ms = poll_ms

    def observe(
        self, partitions: Batch, ends_read: Mapping[int, tuple[int, int]], began_ms: int, ended_ms: int
    ) -> list[str]:
        """Add the end offsets of a poll. Returns the partitions whose end offset decreased."""
        rows, keys = partitions.rows, self._partitions.keys
        self._history.keep(keys)
        end = numbers_of(rows, "log_end_offset")
        fresh = np.flatnonzero(end.known & ~numbers_of(rows, "stale").values)
        sent, received = read_between(numbers_of(rows, "leader").values[fresh], ends_read, began_ms, ended_ms)
        cut = self._history.observe(keys[fresh], end.values[fresh], sent, received)
        return [self._partitions.name_of_key(key) for key in cut.tolist()]

    def observe_timestamps(
        self, timestamp_answers: TimestampAnswers, now_ms: int, is_compacted: Callable[[str], bool]
    ) -> None:
        """Add the answers to timestamp queries; offsets of compacted topics have gaps."""
        numbers, at = np.unique(split_group_keys(timestamp_answers.key)[1], return_inverse=True)
        known = set(self._partitions.topics.all().tolist())
        dense = [n not in known or not is_compacted(self._partitions.topics.name(n)) for n in numbers.tolist()]
        self._history.observe_timestamps(timestamp_answers, now_ms, dense=np.array(dense, dtype=bool)[at])

    def shift(self, by_ms: int) -> None:
        """Apply a step of the wall clock."""
        if by_ms:
            self._history.shift(by_ms)

    def lag_at(
        self, keys: npt.NDArray[np.int64], committed: npt.NDArray[np.int64], end: npt.NDArray[np.int64], now_ms: int
    ) -> TimeLag:
        """The age of the oldest unread record for each partition key and offset; queues queries to narrow it."""
        lag = self._history.lag_of(keys, committed, end, now_ms)
        queries = self._history.next_queries(
            keys, committed, lag, now_ms, poll_ms=self.poll_ms, limit=MAX_TIMESTAMP_QUERIES
        )
        self.queries.put(self._addressed(queries))
        return lag

    def save(self, cluster: str, at_ms: int) -> Batch:
        """The whole history, for a checkpoint."""
        return Batch(TABLE, cluster, at_ms, pack(self._history, self._partitions.name_of))

    def load(self, saved: Batch) -> None:
        """Restore from a checkpoint; the partitions must be restored first."""
        unpack(saved.rows, self._history, self._partitions.number_of)

    def _addressed(self, queries: SelectedTimestamps) -> TimestampQuery:
        """The queries with the topics and leaders of their partitions."""
        topic, partition, leader = self._partitions.addresses(queries.key)
        return TimestampQuery(topic, partition, leader, queries.key, queries.target_ms, queries.end)
