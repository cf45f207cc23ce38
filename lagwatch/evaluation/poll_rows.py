"""Reads the columns of a poll that the evaluator uses: of `consumer_lag`, `topic_partition` and `consumer_group`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagwatch.batch import Batch, Masked, Texts
from lagwatch.broker_queries import TailContent
from lagwatch.columns import numbers_of, strings_of, texts_of
from lagwatch.kafka_names import REBALANCING, WITHOUT_MEMBERS
from lagwatch.windows import EndOffsets


@dataclass(frozen=True, slots=True)
class LagRows:
    """Rows of `consumer_lag`."""

    group: Texts
    topic: Texts
    partition: npt.NDArray[np.int32]
    committed: npt.NDArray[np.int64]
    lag: Masked
    since_moved_ms: npt.NDArray[np.int64]
    unread_ms: npt.NDArray[np.int64]
    unread_seconds: npt.NDArray[np.float64]  # upper bound of the age of the oldest unread message
    is_lost: npt.NDArray[np.bool_]
    fresh: npt.NDArray[np.bool_]
    tail: npt.NDArray[np.int8]  # one of TailContent

    @classmethod
    def of(cls, batch: Batch) -> LagRows:
        """The rows of a batch."""
        rows = batch.rows
        tail = numbers_of(rows, "unread_tail")
        return cls(
            texts_of(rows, "group"),
            texts_of(rows, "topic"),
            numbers_of(rows, "partition").values,
            numbers_of(rows, "committed_offset").values,
            numbers_of(rows, "lag"),
            _ms(numbers_of(rows, "seconds_since_moved").values),
            _ms(numbers_of(rows, "lag_seconds_low").values),
            numbers_of(rows, "lag_seconds_high").values.astype(np.float64),
            numbers_of(rows, "lost_messages").values > 0,
            ~numbers_of(rows, "stale").values,
            np.where(tail.known, tail.values, TailContent.UNKNOWN).astype(np.int8),
        )

    def __len__(self) -> int:
        return len(self.partition)

    def oldest_seconds(self, at: npt.NDArray[np.int32], rows: int) -> npt.NDArray[np.float64]:
        """`unread_seconds` by store row; 0 where unknown."""
        column = np.zeros(rows)
        column[at[at >= 0]] = self.unread_seconds[at >= 0]
        return column


@dataclass(frozen=True, slots=True)
class Members:
    """Names of groups that ever had members, that have members now, and that are rebalancing."""

    had: set[str]
    have: set[str]
    rebalancing: set[str]

    @classmethod
    def of(cls, groups: Batch) -> Members:
        """From rows of `consumer_group`. A group that ever had members has a protocol type, others have none."""
        names = strings_of(groups.rows, "group")
        states, protocols = strings_of(groups.rows, "state"), strings_of(groups.rows, "protocol_type")
        counts = numbers_of(groups.rows, "members").values.tolist()
        had = {name for name, protocol, count in zip(names, protocols, counts, strict=True) if protocol or count}
        have = {
            name
            for name, state, count in zip(names, states, counts, strict=True)
            if count or (state is not None and state not in WITHOUT_MEMBERS)
        }
        rebalancing = {name for name, state in zip(names, states, strict=True) if state in REBALANCING}
        return cls(had, have, rebalancing)


def ends_of(partitions: Batch) -> EndOffsets:
    """The end offsets that brokers returned in this poll."""
    rows = partitions.rows
    topic, end = texts_of(rows, "topic"), numbers_of(rows, "log_end_offset")
    fresh = end.known & ~numbers_of(rows, "stale").values
    counts = np.bincount(topic.codes, minlength=len(topic.values)) if len(rows) else np.zeros(0, np.int64)
    return EndOffsets(
        Texts(topic.codes[fresh], topic.values),
        numbers_of(rows, "partition").values[fresh],
        counts[topic.codes[fresh]],
        end.values[fresh],
    )


def _ms(seconds: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    return np.round(seconds.astype(np.float64) * 1000).astype(np.int64)
