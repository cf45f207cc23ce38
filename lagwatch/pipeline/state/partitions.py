"""Keeps the partitions of a cluster with their last known offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.batch import Batch, Column, Masked, Texts, replace_columns
from lagwatch.catalogue import TOPIC_PARTITION
from lagwatch.clock import Moment
from lagwatch.columns import Names, find, numbers_of, partition_keys, split_group_keys, strings_of, texts_of

_DELETED_TOPICS_KEPT = 10_000
_OFFSETS = ("log_start_offset", "log_end_offset", "last_stable_offset")


@dataclass(frozen=True, slots=True)
class Recreated:
    """A topic that was deleted and created again between two polls."""

    topic: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Last known offsets by sorted key; `at` is the monotonic time of each response."""

    keys: npt.NDArray[np.int64]
    start: Masked
    end: Masked
    at: npt.NDArray[np.float64]
    fresh: npt.NDArray[np.bool_]


class PartitionState:
    """Completes each poll's partition rows with the last known offsets."""

    def __init__(self) -> None:
        self.topics = Names()
        self._topic_ids: dict[str, str] = {}
        self.rows: pa.RecordBatch | None = None
        self.keys = np.zeros(0, np.int64)  # of the rows, in their order
        self._at = np.zeros(0, np.float64)
        self._order = np.zeros(0, np.int64)

    def recreated(self, topics: Batch) -> list[Recreated]:
        """Topics whose id changed; they get a new number and so a new history."""
        changed = []
        rows = topics.rows
        for topic, topic_id in zip(strings_of(rows, "topic"), strings_of(rows, "topic_id"), strict=True):
            before = self._topic_ids.get(topic)
            if before is not None and topic_id is not None and before != topic_id:
                changed.append(Recreated(topic, before, topic_id))
                self.topics.forget(topic)
            if topic_id is not None:
                self._topic_ids.pop(topic, None)
                self._topic_ids[topic] = topic_id  # newest last
        # Ids of deleted topics are kept for a while, to tell when a topic comes back with another id.
        for forgotten in list(self._topic_ids)[: max(0, len(self._topic_ids) - len(topics) - _DELETED_TOPICS_KEPT)]:
            del self._topic_ids[forgotten]
        return changed

    def deleted(self, topics: Batch) -> list[str]:
        """Topics of the previous poll that are missing from this one."""
        return sorted(self.topics.names() - set(texts_of(topics.rows, "topic").values))

    def complete(self, batch: Batch, now: Moment) -> Batch:
        """The poll's rows; where no broker returned offsets, the last known ones, marked stale."""
        fresh = numbers_of(batch.rows, "log_end_offset").known
        keys = self._keys_of(batch.rows)
        before, found = self.locate(keys)
        offsets = {name: self._filled(batch.rows, name, before, found) for name in _OFFSETS}
        self._at = np.where(fresh, now.monotonic, _taken(self._at, before, found, np.nan))
        staleness = _staleness(~fresh, now.monotonic - self._at, offsets["log_end_offset"].known)
        return self._keep(batch, {**offsets, **staleness}, keys)

    def stale(self, at_ms: int, cluster: str, now: Moment) -> Batch | None:
        """All rows as last known and marked stale, for a poll that failed. None before the first poll."""
        if self.rows is None:
            return None
        known = numbers_of(self.rows, "log_end_offset").known
        everything = np.ones(len(known), dtype=bool)
        columns = _staleness(everything, now.monotonic - self._at, known)
        return self._keep(Batch(TOPIC_PARTITION.name, cluster, at_ms, self.rows), columns, self.keys)

    def restore(self, batch: Batch, topics: Batch, now: Moment) -> None:
        """Restore the last known offsets from the journal."""
        self.recreated(topics)
        self.rows = batch.rows
        self.keys = self._keys_of(batch.rows)
        self._order = np.argsort(self.keys, kind="stable")
        age = numbers_of(batch.rows, "age_seconds")
        answered = now.monotonic - max(0, now.wall_ms - batch.at_ms) / 1000 - age.values.astype(np.float64)
        self._at = np.where(numbers_of(batch.rows, "log_end_offset").known, answered, np.nan)

    def ends(self) -> PartitionEnds:
        """The last known end offsets, to compute lag."""
        if self.rows is None:
            nothing = np.zeros(0, dtype=bool)
            unknown = Masked(np.zeros(0, np.int64), nothing)
            return PartitionEnds(self.keys, unknown, unknown, self._at, nothing)
        start, end = (numbers_of(self.rows, name) for name in ("log_start_offset", "log_end_offset"))
        fresh = ~numbers_of(self.rows, "stale").values
        order = self._order
        return PartitionEnds(
            self.keys[order],
            Masked(start.values[order], start.known[order]),
            Masked(end.values[order], end.known[order]),
            self._at[order],
            fresh[order],
        )

    def locate(self, keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The row of each partition key, and whether there is one; without one the row is meaningless."""
        at, found = find(self.keys[self._order], keys)
        return (self._order[at] if len(self._order) else at), found

    def addresses(self, keys: npt.NDArray[np.int64]) -> tuple[Texts, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Topic, partition and leader (-1 if unknown) of partition keys that have a row."""
        if self.rows is None or not len(keys):
            nothing = np.zeros(0, np.int32)
            return Texts(nothing, []), nothing, nothing
        row, _ = self.locate(keys)
        topic, leader = texts_of(self.rows, "topic"), numbers_of(self.rows, "leader")
        return (
            Texts(topic.codes[row], topic.values),
            numbers_of(self.rows, "partition").values[row],
            np.where(leader.known, leader.values, -1)[row].astype(np.int32),
        )

    def name_of(self, number: int) -> tuple[str, str]:
        """The name and id of a topic number."""
        name = self.topics.name(number)
        return name, self._topic_ids.get(name, "")

    def name_of_key(self, key: int) -> str:
        """`topic/partition` of a partition key."""
        _, topic, partition = split_group_keys(np.array([key], dtype=np.int64))
        return f"{self.topics.name(int(topic[0]))}/{partition[0]}"

    def number_of(self, topic: str, topic_id: str) -> int | None:
        """The number of a topic that still has this id; None otherwise."""
        number = int(self.topics.look_up([topic])[0])
        return number if number >= 0 and self._topic_ids.get(topic, "") == topic_id else None

    def _keys_of(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        topic = texts_of(rows, "topic")
        numbers = self.topics.numbers(topic.values)
        self.topics.keep(numbers)
        return partition_keys(
            numbers[topic.codes] if len(numbers) else np.zeros(0, np.int64), numbers_of(rows, "partition").values
        )

    def _filled(
        self, rows: pa.RecordBatch, name: str, before: npt.NDArray[np.int64], found: npt.NDArray[np.bool_]
    ) -> Masked:
        now = numbers_of(rows, name)
        if now.known.all() or self.rows is None:
            return now
        then = numbers_of(self.rows, name)
        had = _taken(then.known, before, found, 0)
        values = np.where(now.known, now.values, _taken(then.values, before, found, 0))
        return Masked(values, now.known | had)

    def _keep(self, batch: Batch, columns: dict[str, Column], keys: npt.NDArray[np.int64]) -> Batch:
        completed = replace_columns(batch, columns)
        self.rows, self.keys = completed.rows, keys
        self._order = np.argsort(keys, kind="stable")
        return completed


def _taken(
    values: npt.NDArray[Any], at: npt.NDArray[np.int64], found: npt.NDArray[np.bool_], missing: float
) -> npt.NDArray[Any]:
    """Values at positions; `missing` where `found` is false."""
    taken = np.where(found, values[at], missing) if len(values) else np.full(len(at), missing)
    return taken.astype(values.dtype)


def _staleness(
    stale: npt.NDArray[np.bool_], age: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]
) -> dict[str, Column]:
    return {"stale": stale, "age_seconds": Masked(np.nan_to_num(np.maximum(age, 0)), stale & known)}
