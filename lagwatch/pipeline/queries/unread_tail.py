"""Tracks groups with a lag of at most 10: are the unread offsets records or transaction markers? Queues a query if unknown.

The marker that ends a transaction takes an offset that no consumer reads, so a group that has read everything may keep a
lag of one for ever. Only a broker can tell whether a record is there. Its answer is kept as long as the group has not
moved, and is journalled in the column `unread_tail`; after a restart it is queried again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch, Masked, replace_columns
from lagwatch.broker_queries import TailAnswers, TailContent, TailQuery
from lagwatch.clock import Moment
from lagwatch.columns import find, numbers_of, partition_keys, texts_of
from lagwatch.evaluation import Policies
from lagwatch.pipeline.queries.mailbox import LatestValue
from lagwatch.pipeline.state.partitions import PartitionEnds, PartitionState
from lagwatch.verdict.lagwatch_rules import MAX_MARKERS
from lagwatch.verdict.policy import Extension
from lagwatch.verdict.status import Mode

MAX_QUERIES = 500  # of one poll
MAX_TRACKED = 4000  # rows; of more, those with the smallest lag, since markers leave a lag of one or two
RETRY_SECONDS = 60.0  # until a query that was not answered is repeated
TailQueries = LatestValue[TailQuery]


class TailPosition(NamedTuple):
    """A partition key, a committed offset and the end offset."""

    key: int
    offset: int
    end: int


class UnreadTails:
    """Tracks the groups just before the log end of one cluster's partitions."""

    def __init__(self, partitions: PartitionState) -> None:
        self.queries = TailQueries()
        self._partitions = partitions
        self._ends: PartitionEnds | None = None  # of the previous poll
        self._queried: dict[TailPosition, float] = {}  # the monotonic time of the last query; -inf before the first
        self._content: dict[TailPosition, TailContent] = {}

    def observe(self, lag: Batch, policies: Policies, now: Moment) -> Batch:
        """The rows of a poll with `unread_tail` where brokers answered; queues queries for the rest."""
        tail = np.full(len(lag), TailContent.UNKNOWN, np.int64)
        rows = rows_near_end(lag, policies)
        if len(rows) > MAX_TRACKED:
            nearest = np.argsort(numbers_of(lag.rows, "lag").values[rows], kind="stable")[:MAX_TRACKED]
            rows = rows[np.sort(nearest)]
        positions = self._positions(lag, rows)
        self._queried = {position: self._queried.get(position, -np.inf) for position in positions}
        self._content = {position: content for position, content in self._content.items() if position in self._queried}
        tail[rows] = [self._content.get(position, TailContent.UNKNOWN) for position in positions]
        # Only if the end did not move either: other groups will have read the new records by the next poll.
        idle = self._has_idle_end(positions) & ~numbers_of(lag.rows, "stale").values[rows]
        self._queue([position for position, is_idle in zip(positions, idle.tolist(), strict=True) if is_idle], now)
        self._ends = self._partitions.ends()
        return replace_columns(lag, {"unread_tail": Masked(tail, tail != TailContent.UNKNOWN)})

    def observe_answers(self, answers: TailAnswers) -> None:
        """Add the brokers' answers; the next poll uses them."""
        columns = (answers.key, answers.offset, answers.end, answers.content)
        for key, offset, end, content in zip(*(column.tolist() for column in columns), strict=True):
            position = TailPosition(key, offset, end)
            if position in self._queried:
                self._content[position] = TailContent(content)

    def _positions(self, lag: Batch, rows: npt.NDArray[np.intp]) -> list[TailPosition]:
        topic = texts_of(lag.rows, "topic")
        numbers = self._partitions.topics.look_up(topic.values)
        keys = partition_keys(numbers[topic.codes[rows]], numbers_of(lag.rows, "partition").values[rows])
        offset = numbers_of(lag.rows, "committed_offset").values[rows]
        end = offset + numbers_of(lag.rows, "lag").values[rows]
        return [TailPosition(*row) for row in zip(keys.tolist(), offset.tolist(), end.tolist(), strict=True)]

    def _has_idle_end(self, positions: list[TailPosition]) -> npt.NDArray[np.bool_]:
        """Whether each end offset is the same as in the previous poll."""
        if self._ends is None or not len(self._ends.keys):
            return np.zeros(len(positions), dtype=bool)
        key, _, end = np.array(positions, np.int64).reshape(-1, 3).T
        at, found = find(self._ends.keys, key)
        return np.asarray(found & self._ends.end.known[at] & (self._ends.end.values[at] == end))

    def _queue(self, positions: list[TailPosition], now: Moment) -> None:
        """Queue one query per partition, new positions first, unless the last queries were not taken yet."""
        due = {
            position
            for position in positions
            if position not in self._content and now.monotonic - self._queried[position] >= RETRY_SECONDS
        }
        if not due or self.queries.is_waiting:
            return
        chosen: dict[int, TailPosition] = {}
        for position in sorted(due, key=lambda one: (self._queried[one], -one.offset, one.key)):
            chosen.setdefault(position.key, position)
            if len(chosen) == MAX_QUERIES:
                break
        self._queried.update(dict.fromkeys(chosen.values(), now.monotonic))
        self.queries.put(self._addressed(list(chosen.values())))

    def _addressed(self, positions: list[TailPosition]) -> TailQuery:
        """The queries with the topics and leaders of their partitions."""
        key, offset, end = np.array(positions, np.int64).T
        topic, partition, leader = self._partitions.addresses(key)  # a partition with lag has a row
        return TailQuery(topic, partition, leader, key, offset, end)


def rows_near_end(lag: Batch, policies: Policies) -> npt.NDArray[np.intp]:
    """The rows whose lag is so small that markers alone may explain it, of groups whose rules ignore markers."""
    behind, lost = numbers_of(lag.rows, "lag"), numbers_of(lag.rows, "lost_messages")
    near = behind.known & (behind.values > 0) & (behind.values <= MAX_MARKERS) & (lost.values == 0)
    rows = np.flatnonzero(near & (numbers_of(lag.rows, "seconds_since_moved").values > 0))
    group = texts_of(lag.rows, "group")
    numbers = policies.of_groups(group.values)
    ignores_markers = (policies.column(numbers, "mode") == Mode.LAGWATCH) & (
        policies.column(numbers, "extensions") & Extension.MARKERS
    ).astype(bool)
    return np.asarray(rows[ignores_markers[group.codes[rows]]], np.intp)
