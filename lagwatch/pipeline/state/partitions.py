"""The partitions of a cluster with their last known offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lagwatch.batch import Batch, Column, Masked, replace_columns
from lagwatch.catalogue import TOPIC_PARTITION
from lagwatch.clock import Moment
from lagwatch.columns import Names, find, numbers_of, partition_keys, split_group_keys, strings_of, texts_of

_GONE_TOPICS = 10_000
_OFFSETS = ("log_start_offset", "log_end_offset", "last_stable_offset")


@dataclass(frozen=True, slots=True)
class Recreated:
    """A topic that was deleted and created again between two polls."""

    topic: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Last known offsets by sorted key; `at` is when each was answered, on the monotonic clock."""

    keys: npt.NDArray[np.int64]
    start: Masked
    end: Masked
    at: npt.NDArray[np.float64]
    fresh: npt.NDArray[np.bool_]


class PartitionState:
    """Completes each poll's partition rows with what was known before."""

    def __init__(self) -> None:
        self.topics = Names()
        self._topic_ids: dict[str, str] = {}
        self.rows: pa.RecordBatch | None = None
        self.keys = np.zeros(0, np.int64)  # of the rows, in their order
        self._at = np.zeros(0, np.float64)
        self._order = np.zeros(0, np.int64)

    def recreated(self, topics: Batch) -> list[Recreated]:
        """Topics whose id has changed; from now on they have a history of their own."""
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
        # Topics that are gone stay known for a while: one that comes back is the same name with another history.
        for forgotten in list(self._topic_ids)[: max(0, len(self._topic_ids) - len(topics) - _GONE_TOPICS)]:
            del self._topic_ids[forgotten]
        return changed

    def gone(self, topics: Batch) -> list[str]:
        """Topics of the last poll that this one does not have."""
        return sorted(self.topics.names() - set(texts_of(topics.rows, "topic").values))

    def complete(self, batch: Batch, now: Moment) -> Batch:
        """The poll's rows; where nobody answered for the offsets, the last known ones, marked stale."""
        fresh = numbers_of(batch.rows, "log_end_offset").known
        keys = self._keys_of(batch.rows)
        at, found = find(self.keys[self._order], keys)
        before = self._order[at] if len(self._order) else at
        offsets = {name: self._filled(batch.rows, name, before, found) for name in _OFFSETS}
        self._at = np.where(fresh, now.monotonic, _taken(self._at, before, found, np.nan))
        staleness = _staleness(~fresh, now.monotonic - self._at, offsets["log_end_offset"].known)
        return self._keep(batch, {**offsets, **staleness}, keys)

    def stale(self, at_ms: int, cluster: str, now: Moment) -> Batch | None:
        """All rows as last known, when nothing could be asked."""
        if self.rows is None:
            return None
        known = numbers_of(self.rows, "log_end_offset").known
        everything = np.ones(len(known), dtype=bool)
        columns = _staleness(everything, now.monotonic - self._at, known)
        return self._keep(Batch(TOPIC_PARTITION.name, cluster, at_ms, self.rows), columns, self.keys)

    def restore(self, batch: Batch, topics: Batch, now: Moment) -> None:
        """Take up what a journal says was last known."""
        self.recreated(topics)
        self.rows = batch.rows
        self.keys = self._keys_of(batch.rows)
        self._order = np.argsort(self.keys, kind="stable")
        age = numbers_of(batch.rows, "age_seconds")
        answered = now.monotonic - max(0, now.wall_ms - batch.at_ms) / 1000 - age.values.astype(np.float64)
        self._at = np.where(numbers_of(batch.rows, "log_end_offset").known, answered, np.nan)

    def ends(self) -> PartitionEnds:
        """The last known ends, for lag."""
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

    def name_of(self, number: int) -> tuple[str, str]:
        """Name and id of a topic by its number."""
        name = self.topics.name(number)
        return name, self._topic_ids.get(name, "")

    def name_of_key(self, key: int) -> str:
        """`topic/partition` of a partition key."""
        _, topic, partition = split_group_keys(np.array([key], dtype=np.int64))
        return f"{self.topics.name(int(topic[0]))}/{partition[0]}"

    def number_of(self, topic: str, topic_id: str) -> int | None:
        """The number of a topic that is still there with that id."""
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
    """Values at positions, or `missing` where nothing was found."""
    taken = np.where(found, values[at], missing) if len(values) else np.full(len(at), missing)
    return taken.astype(values.dtype)


def _staleness(
    stale: npt.NDArray[np.bool_], age: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]
) -> dict[str, Column]:
    return {"stale": stale, "age_seconds": Masked(np.nan_to_num(np.maximum(age, 0)), stale & known)}
