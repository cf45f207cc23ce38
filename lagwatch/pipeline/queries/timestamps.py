"""When the records of a cluster were written: the history of its ends, and what is still to be asked of brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch, Texts
from lagwatch.columns import find, numbers_of, split_group_keys, texts_of
from lagwatch.pipeline.queries.mailbox import LatestValue
from lagwatch.pipeline.state.partitions import PartitionState
from lagwatch.queries import TimestampAnswers, TimestampQuery
from lagwatch.time_lag import EndHistory, TimeLag, WantedTimestamps, pack, read_between, unpack

TABLE = "end_history"
_MOST_PROBES = 2000
_BUDGET_BYTES = 8 * 1024 * 1024  # for the points of partitions on which somebody is behind
TimestampQueries = LatestValue[TimestampQuery]


class WriteTimes:
    """Follows the ends of one cluster's partitions in time."""

    def __init__(self, partitions: PartitionState, *, poll_ms: int = 10_000) -> None:
        self.wanted = TimestampQueries()
        self._partitions = partitions
        self._history = EndHistory(budget_bytes=_BUDGET_BYTES)
        self.poll_ms = poll_ms

    def observe(
        self, partitions: Batch, ends_read: Mapping[int, tuple[int, int]], began_ms: int, ended_ms: int
    ) -> list[str]:
        """Take in the ends a poll brought. Returns the partitions whose end went down."""
        rows, keys = partitions.rows, self._partitions.keys
        kept = np.sort(keys)
        self._history.drop(self._history.table.keys[~find(kept, self._history.table.keys)[1]])
        end = numbers_of(rows, "log_end_offset")
        fresh = np.flatnonzero(end.known & ~numbers_of(rows, "stale").values)
        sent, heard = read_between(numbers_of(rows, "leader").values[fresh], ends_read, began_ms, ended_ms)
        cut = self._history.observe(keys[fresh], end.values[fresh], sent, heard)
        return [self._partitions.name_of_key(key) for key in cut.tolist()]

    def observe_timestamps(
        self, timestamp_answers: TimestampAnswers, now_ms: int, is_compacted: Callable[[str], bool]
    ) -> None:
        """Take in brokers' answers; offsets of compacted topics have holes."""
        numbers, at = np.unique(split_group_keys(timestamp_answers.key)[1], return_inverse=True)
        known = set(self._partitions.topics.all().tolist())
        dense = [n not in known or not is_compacted(self._partitions.topics.name(n)) for n in numbers.tolist()]
        self._history.observe_timestamps(timestamp_answers, now_ms, dense=np.array(dense, dtype=bool)[at])

    def shift(self, by_ms: int) -> None:
        """The wall clock was set."""
        if by_ms:
            self._history.shift(by_ms)

    def lag_at(
        self, keys: npt.NDArray[np.int64], committed: npt.NDArray[np.int64], end: npt.NDArray[np.int64], now_ms: int
    ) -> TimeLag:
        """How old the oldest unread record is, for each partition key and offset; asks for what it lacks."""
        lag = self._history.lag_of(keys, committed, end, now_ms)
        wanted = self._history.next_queries(keys, committed, lag, now_ms, poll_ms=self.poll_ms, limit=_MOST_PROBES)
        self.wanted.put(self._named(wanted))
        return lag

    def save(self, cluster: str, at_ms: int) -> Batch:
        """All of it, for a checkpoint."""
        return Batch(TABLE, cluster, at_ms, pack(self._history, self._partitions.name_of))

    def load(self, saved: Batch) -> None:
        """Go on from a checkpoint; the partitions must be known already."""
        unpack(saved.rows, self._history, self._partitions.number_of)

    def _named(self, wanted: WantedTimestamps) -> TimestampQuery:
        """The questions with the names and leaders of their partitions."""
        rows = self._partitions.rows
        if rows is None or not len(wanted):
            nothing = np.zeros(0, np.int32)
            return TimestampQuery(Texts(nothing, []), nothing, nothing, wanted.key, wanted.target_ms, wanted.end)
        order = np.argsort(self._partitions.keys, kind="stable")
        row = order[find(self._partitions.keys[order], wanted.key)[0]]
        topic, leader = texts_of(rows, "topic"), numbers_of(rows, "leader")
        return TimestampQuery(
            Texts(topic.codes[row], topic.values),
            numbers_of(rows, "partition").values[row],
            np.where(leader.known, leader.values, -1)[row].astype(np.int32),
            wanted.key,
            wanted.target_ms,
            wanted.end,
        )
